// operator: time, bandwidth, operations and error of the kernels of an operator, beside the machine's ceilings.
//
//     bench_operator --op linear --format q4_k,q6_k --tokens 1,8,512 --threads 1,2 --path all
#include "operator.hpp"

int main(int argc, char** argv) { return operator_bench::run(operator_bench::known_kernels(), argc, argv); }
