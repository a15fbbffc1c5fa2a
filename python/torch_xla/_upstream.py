"""What PyTorch/XLA has and this package has not yet: asking for it raises an error that says so."""

import dis
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_HINT = "Thalweg does not have it yet; see docs/ for what it has."


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Module -> names that PyTorch/XLA has in it.
NAMES: dict[str, frozenset[str]] = {
    "torch_xla": _words("assume_pure set_custom_call_handler"),
    "torch_xla.core.xla_model": _words("all_gather_bucketized reduce_scatter_bucketized get_stablehlo_bytecode xla_replication_groups"),
    "torch_xla.runtime": _words("get_master_ip process_index_of_device get_num_cached_compilation_graph set_rendezvous"),
    "torch_xla.debug.profiler": _words("start_server trace trace_detached start_trace stop_trace get_hlo_proto"),
    "torch_xla.distributed.spmd": _words("""
        HybridMesh XLAShardedTensor XLAShard XLAPatchedLinear xla_patched_nn_linear_forward apply_xla_patch_to_nn_linear auto_policy wrap_if_sharded
        xla_distribute_tensor xla_distribute_module convert_to_xla_mesh ShardingType create_global_mesh enable_manual_sharding disable_manual_sharding
    """),
    "torch_xla.experimental": _words("mark_sharding StreamLayout"),
    "torch_xla.amp.syncfree": _words("Adadelta Adagrad"),
    "torch_xla._XLAC": _words("""
        _xla_all_reduce _xla_optimization_barrier_ _flash_attention_forward _flash_attention_backward _xla_mark_sharding _xla_mark_bounded_dynamic
        _xla_tpu_custom_call _xla_gpu_custom_call _xla_get_cpu_tensors _get_graph_hash _xla_warm_up_cache _run_cached_graph XLAShardingSpec OpSharding
        _xla_computation_cache_is_initialized _xla_memory_info _get_xla_tensors_hlo_proto
    """),
}

# Modules that PyTorch/XLA has.
MODULES = frozenset(
    "torch_xla." + name
    for name in _words("""
        stablehlo tf_saved_model_integration builder ops plugins core.xla_builder core.xla_op_registry core.functions
        distributed.fsdp distributed.zero_redundancy_optimizer distributed.fsdp.wrap distributed.fsdp.utils distributed.tensor_parallel
        experimental.scan experimental.scan_layers experimental.custom_kernel experimental.gradient_accumulation experimental.pjrt experimental.pjrt_backend
        experimental.spmd_fully_sharded_data_parallel experimental.distributed_checkpoint experimental.assume_pure experimental.flash_attention
        experimental.dynamo_set_buffer_donor experimental.quantized experimental.xla_quantized_matmul experimental.triton experimental.callback
        experimental.splash_attention experimental.pallas_kernels experimental.deprecation quantized debug.graph_saver debug.metrics_saver
        debug.metrics_compare_utils debug.profiler_utils debug.frame_parser_util utils.buffer_donor_context utils.stablehlo_test_utils utils.gcsfs
        utils.tf_record_reader utils.keyd_queue utils.closures random
    """)
)


def missing(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of `module`: explains names that PyTorch/XLA has."""

    def getattribute(name: str) -> Any:
        if name in NAMES.get(module, ()):
            text = f"{module}.{name} exists in PyTorch/XLA, but {_HINT}"
            frame = sys._getframe(1)
            # `from module import name` would hide the text of an AttributeError.
            if frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]:
                raise ImportError(text, name=module)
            raise AttributeError(text, name=name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)

    return getattribute


class _MissingModules(importlib.abc.MetaPathFinder):
    """Explains imports of modules that PyTorch/XLA has. Asked last, when no such module was found."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if fullname in MODULES:
            raise ModuleNotFoundError(f"module {fullname} exists in PyTorch/XLA, but {_HINT}", name=fullname)
        return None


def install() -> None:
    """Makes imports of unknown modules of `torch_xla` explain themselves. Idempotent."""
    if not any(isinstance(finder, _MissingModules) for finder in sys.meta_path):
        sys.meta_path.append(_MissingModules())
