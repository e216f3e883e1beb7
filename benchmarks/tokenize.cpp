// tokenize: the token ids of a text, for comparison with other programs.
//
//     bench_tokenize MODEL.gguf "Once upon a time"
#include <exception>
#include <iostream>

#include <tern/file/open_checkpoint.hpp>
#include <tern/model/read_vocabulary.hpp>
#include <tern/text/tokenizer.hpp>
#if __has_include(<pcre2.h>)
#include <tern/text/byte_pair.hpp>
#endif

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "usage: bench_tokenize MODEL.gguf TEXT\n";
        return 1;
    }
    try {
        const tern::checkpoint file = tern::open_checkpoint(argv[1]);
        const tern::tokenizer words = tern::make_tokenizer(tern::read_vocabulary(file));
        const char* between = "";
        for (const tern::token_id id : words.encode(argv[2])) {
            std::cout << between << id;
            between = " ";
        }
        std::cout << "\n";
    } catch (const std::exception& e) {
        std::cerr << "tokenize: " << e.what() << "\n";
        return 1;
    }
}
