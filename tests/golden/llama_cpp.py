"""The few llama.cpp calls that the golden scripts need, through ctypes.

The Python package `xllamacpp` ships all of llama.cpp in one shared object and exports its C
interface, but its own Python interface gives no logits. So the C functions are called directly.

The parameter structs grow from release to release. Instead of declaring them, this file takes the
library's own default structs as opaque bytes and patches a handful of words whose offsets it first
checks against the known defaults; another layout is refused, never guessed.
"""
import ctypes
import glob
import os
from ctypes import POINTER, Structure, c_bool, c_char_p, c_float, c_int8, c_int32, c_int64, c_size_t, c_void_p

import numpy as np

_BLOB = 512  # more than any parameter struct; the callee writes and reads only its own size


class _Blob(Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * _BLOB)]

    def words(self):
        return np.frombuffer(self, dtype=np.int32)


class _Batch(Structure):
    _fields_ = [("n_tokens", c_int32), ("token", POINTER(c_int32)), ("embd", POINTER(c_float)),
                ("pos", POINTER(c_int32)), ("n_seq_id", POINTER(c_int32)),
                ("seq_id", POINTER(POINTER(c_int32))), ("logits", POINTER(c_int8))]


# int32 word index of each field in llama_context_params that is set here
_N_CTX, _N_BATCH, _N_UBATCH, _N_SEQ_MAX = 0, 1, 2, 3
_N_THREADS, _N_THREADS_BATCH = 7, 8
_FLASH_ATTN = 13
_TYPE_K, _TYPE_V = 26, 27
_GGML_F32, _GGML_F16 = 0, 1

_lib = None
_log_off = None  # the callback must outlive the library's use of it


def library():
    global _lib, _log_off
    if _lib is not None:
        return _lib
    import xllamacpp  # loads the shared object's own dependencies
    path = glob.glob(os.path.join(os.path.dirname(xllamacpp.__file__), "*.so"))[0]
    lib = ctypes.CDLL(path)

    def declare(name, result, *arguments):
        f = getattr(lib, name)
        f.restype, f.argtypes = result, list(arguments)

    log_type = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)
    declare("llama_log_set", None, log_type, c_void_p)
    declare("llama_backend_init", None)
    declare("llama_model_default_params", _Blob)
    declare("llama_context_default_params", _Blob)
    declare("llama_model_load_from_file", c_void_p, c_char_p, _Blob)
    declare("llama_init_from_model", c_void_p, c_void_p, _Blob)
    declare("llama_model_free", None, c_void_p)
    declare("llama_free", None, c_void_p)
    declare("llama_model_get_vocab", c_void_p, c_void_p)
    declare("llama_vocab_n_tokens", c_int32, c_void_p)
    declare("llama_vocab_is_eog", c_bool, c_void_p, c_int32)
    declare("llama_tokenize", c_int32, c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool)
    declare("llama_token_to_piece", c_int32, c_void_p, c_int32, c_char_p, c_int32, c_int32, c_bool)
    declare("llama_batch_init", _Batch, c_int32, c_int32, c_int32)
    declare("llama_batch_free", None, _Batch)
    declare("llama_decode", c_int32, c_void_p, _Batch)
    declare("llama_get_logits_ith", POINTER(c_float), c_void_p, c_int32)
    declare("llama_get_memory", c_void_p, c_void_p)
    declare("llama_memory_clear", None, c_void_p, c_bool)
    declare("llama_synchronize", None, c_void_p)
    declare("llama_print_system_info", c_char_p)
    declare("ggml_quantize_chunk", c_size_t, c_int32, POINTER(c_float), c_void_p, c_int64, c_int64, c_int64,
            POINTER(c_float))

    errors = os.environ.get("LLAMA_CPP_LOG")

    def log(level, text, _):
        if errors or level == 4:  # errors
            print(text.decode(errors="replace"), end="", flush=True)

    _log_off = log_type(log)
    lib.llama_log_set(_log_off, None)
    lib.llama_backend_init()
    _lib = lib
    return lib


def version():
    import importlib.metadata
    return "xllamacpp " + importlib.metadata.version("xllamacpp")


def quantize(type_id, values, row):
    """Encodes f32 values with libggml's reference quantizer (no importance matrix), as bytes."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    out = np.zeros(values.nbytes + 64, dtype=np.uint8)
    size = library().ggml_quantize_chunk(type_id, values.ctypes.data_as(POINTER(c_float)),
                                         out.ctypes.data, 0, values.size // row, row, None)
    return out[:size].copy()


def dequantize(name, raw, count):
    """Decodes `count` values of the block format `name` with libggml's reference code."""
    f = getattr(library(), "dequantize_row_" + name.replace("_k", "_K"))
    f.restype, f.argtypes = None, [c_void_p, POINTER(c_float), c_int64]
    out = np.empty(count, dtype=np.float32)
    raw = np.ascontiguousarray(raw)
    f(raw.ctypes.data, out.ctypes.data_as(POINTER(c_float)), count)
    return out


class Model:
    """A model and one context. f32 KV cache by default, no flash attention: the most exact path there is."""

    def __init__(self, path, threads=1, context=512, ubatch=512, kv_f16=False, flash=False, vocab_only=False):
        lib = library()
        p = lib.llama_model_default_params()
        # vocab_only, check_tensors, use_extra_bufts, no_host, no_alloc from byte 72 on
        if bytes(p.bytes[72:77]) != b"\0\0\1\0\0":
            raise RuntimeError("unknown layout of llama_model_params: another llama.cpp than this script knows")
        p.bytes[72] = vocab_only
        self.model = lib.llama_model_load_from_file(os.fsencode(path), p)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {path} (set LLAMA_CPP_LOG=1 to see why)")
        self.vocab = lib.llama_model_get_vocab(self.model)
        self.n_vocab = lib.llama_vocab_n_tokens(self.vocab)
        self.context = None
        self.size = context
        if vocab_only:
            return
        c = lib.llama_context_default_params()
        w = c.words()
        known = {_N_CTX: 512, _N_BATCH: 2048, _N_UBATCH: 512, _N_SEQ_MAX: 1, 4: 0, 5: 0, 6: 1, _N_THREADS: 4,
                 _N_THREADS_BATCH: 4, 9: 0, 10: -1, 11: -1, 12: -1, _FLASH_ATTN: -1, _TYPE_K: _GGML_F16,
                 _TYPE_V: _GGML_F16}
        if any(int(w[i]) != v for i, v in known.items()):
            raise RuntimeError("unknown layout of llama_context_params: another llama.cpp than this script knows")
        w = (c_int32 * (_BLOB // 4)).from_buffer(c)
        w[_N_CTX], w[_N_BATCH], w[_N_UBATCH] = context, context, ubatch
        w[_N_THREADS] = w[_N_THREADS_BATCH] = threads
        w[_FLASH_ATTN] = 1 if flash else 0
        w[_TYPE_K] = w[_TYPE_V] = _GGML_F16 if kv_f16 else _GGML_F32
        self.context = lib.llama_init_from_model(self.model, c)
        if not self.context:
            raise RuntimeError(f"llama.cpp cannot make a context for {path}")
        self.batch = lib.llama_batch_init(context, 0, 1)
        self.position = 0

    def close(self):
        lib = library()
        if self.context:
            lib.llama_batch_free(self.batch)
            lib.llama_free(self.context)
        lib.llama_model_free(self.model)
        self.context = self.model = None

    def reset(self):
        library().llama_memory_clear(library().llama_get_memory(self.context), True)
        self.position = 0

    def tokenize(self, text, special=True, parse_special=True):
        raw = text.encode()
        out = (c_int32 * (len(raw) + 16))()
        n = library().llama_tokenize(self.vocab, raw, len(raw), out, len(out), special, parse_special)
        if n < 0:
            raise RuntimeError("tokenize failed")
        return list(out[:n])

    def text(self, tokens):
        parts = b""
        for t in tokens:
            piece = ctypes.create_string_buffer(256)
            n = library().llama_token_to_piece(self.vocab, t, piece, 256, 0, True)
            parts += piece.raw[:max(n, 0)]
        return parts.decode(errors="replace")

    def run(self, tokens, every=True):
        """Runs tokens after what is in the cache. One row of logits per token, or only the last one's."""
        lib = library()
        n = len(tokens)
        b = self.batch
        b.n_tokens = n
        for i, t in enumerate(tokens):
            b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0] = int(t), self.position + i, 1, 0
            b.logits[i] = 1 if every or i == n - 1 else 0
        if lib.llama_decode(self.context, b) != 0:
            raise RuntimeError("llama_decode failed")
        lib.llama_synchronize(self.context)
        self.position += n
        rows = range(n) if every else [n - 1]
        return np.stack([np.ctypeslib.as_array(lib.llama_get_logits_ith(self.context, i), (self.n_vocab,)).copy()
                         for i in rows])

    def logits(self, tokens):
        """From an empty cache: the whole prompt in one batch, one row per position."""
        self.reset()
        return self.run(tokens)

    def greedy(self, tokens, count):
        """`count` tokens by argmax (end tokens are not treated specially), and the logits they came from."""
        self.reset()
        row = self.run(tokens, every=False)[0]
        out, rows = [], []
        for _ in range(count):
            out.append(int(row.argmax()))
            rows.append(row)
            row = self.run([out[-1]])[0]
        return out, np.stack(rows)
