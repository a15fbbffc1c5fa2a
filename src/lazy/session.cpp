// Recording, reading and settings of the lazy device.
#include "lazy/session.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "lazy/device_choice.h"
#include "lazy/session_state.h"
#include "lazy/transfer.h"
#include "support/hash.h"

namespace thalweg::lazy {
namespace {

// The trace that operations of this thread join.
thread_local TracePtr own_trace;

uint64_t hash_words(uint64_t h, std::span<const uint64_t> words) {
  for (uint64_t word : words) h = mix(h, word);
  return h;
}

View flat_layout(const Storage& storage, ir::DType dtype) {
  const int64_t dims[] = {static_cast<int64_t>(storage.bytes) / ir::byte_size(dtype)};
  return View(dtype, dims);
}

bool covers(const Storage& storage, const View& view) {
  return static_cast<size_t>(view.count() * ir::byte_size(view.dtype)) == storage.bytes && view.is_dense();
}

View as_bytes(const Storage& storage) { return flat_layout(storage, ir::DType::U8); }

}  // namespace

Session& Session::get() {
  static auto* session = new Session;
  return *session;
}

Session::Session() : state_(new State) {}

runtime::Device& Session::State::use_device() {
  if (device.load()) return *device.load();
  device = &chosen_device();
  if (device_hook) device_hook(*device.load());
  // After the device has registered its own handlers: those that run before a fork run last registered first, so that what is in flight has been waited
  // for when the device takes its locks.
  pthread_atfork(
      [] {
        State& state = *get().state_;
        state.lock.lock();
        try {
          state.settle(0);
        } catch (const Error&) {
        }
      },
      [] { get().state_->lock.unlock(); },
      // The child's thread is not the owner that the recursive lock remembers, and nobody else is left to hold it.
      [] { new (&get().state_->lock) std::recursive_mutex; });
  return *device.load();
}

runtime::Device& Session::device() {
  std::lock_guard guard(state_->lock);
  return state_->use_device();
}

Storage::Storage(size_t bytes) : bytes(bytes) {}

Storage::~Storage() {
  std::lock_guard guard(Session::get().state_->lock);
  if (trace) trace->root()->remove(*this);
  if (committed) --committed->internal_refs;
}

Trace& Session::State::thread_trace() {
  if (!own_trace || own_trace->parent) {
    own_trace = TracePtr(new Trace);
    std::erase_if(traces, [](const TracePtr& trace) { return trace->parent || (trace->pending.empty() && trace->use_count() == 1); });
    traces.push_back(own_trace);
  }
  return *own_trace;
}

Trace& Session::State::join(const Record& record) {
  Trace* target = record.backward ? nullptr : &thread_trace();
  for (const TensorArg& tensor : record.tensors) {
    if (!tensor.storage || !tensor.storage->trace) continue;
    Trace* root = tensor.storage->trace->root();
    if (!target) target = root;
    if (root != target) target->absorb(*root);
  }
  if (!target) target = &thread_trace();
  if (record.backward) own_trace = TracePtr(target);
  return *target;
}

ValuePtr Session::State::make_value() {
  ValuePtr value(new Value);
  value->sequence = ++sequence;
  return value;
}

void Session::State::set_pending(Trace& trace, Storage& storage, ValuePtr value) {
  if (!storage.committed && storage.current && storage.current->buffer && !storage.current->error) {
    storage.committed = storage.current;
    ++storage.committed->internal_refs;
  }
  storage.current = std::move(value);
  trace.add(storage);
}

void Session::State::set_ready(Storage& storage, ValuePtr value) {
  if (storage.trace) storage.trace->root()->remove(storage);
  if (storage.committed) --storage.committed->internal_refs;
  storage.committed.reset();
  storage.current = std::move(value);
  if (!storage.home) return;
  order_exposed(storage.home);
  write_home(storage);
  if (is_ordered_outside()) return order_exposed(storage.home);
  storage.home->wait_written();  // whoever knows the address may look at once
}

ValuePtr& Session::State::current(Storage& storage, const View& view) {
  if (!storage.current) {
    storage.current = make_value();
    storage.current->layout = covers(storage, view) ? view : flat_layout(storage, view.dtype);
  }
  if (storage.current->error) throw Error(*storage.current->error);
  return storage.current;
}

ValuePtr Session::State::write_view(Storage& storage, const View& view, ValuePtr update, bool backward, uint32_t line) {
  ValuePtr base = current(storage, view);
  const std::vector<uint64_t> encoded = encode_view(view);
  NodePtr node(Node::create(2, encoded.size() + 1, 0, 1));
  node->row = &write_view_row();
  node->line = line;
  node->group = backward;
  node->words[0] = static_cast<uint64_t>(ArgKind::Ints) | encoded.size() << 8;
  std::copy(encoded.begin(), encoded.end(), node->words.begin() + 1);
  node->inputs[0] = {base, base->layout};
  node->inputs[1] = {update, update->layout};
  node->outputs[0] = base->layout;
  node->hash = mix(mix(hash_words(reinterpret_cast<uintptr_t>(node->row) + node->group, node->words), base->layout.hash()), update->layout.hash());
  ValuePtr value = make_value();
  value->node = std::move(node);
  value->layout = base->layout;
  return value;
}

namespace {

// Fills a node from a record; `value_of` gives the version that a tensor argument reads now.
template <class ValueOf>
NodePtr make_node(const Record& record, size_t results, std::span<const Scalar> rng, ValueOf value_of) {
  NodePtr node(Node::create(record.tensors.size(), record.words.size(), record.scalars.size() + rng.size(), results));
  node->row = record.row;
  node->line = record.line;
  node->group = record.backward;
  uint64_t h = hash_words(reinterpret_cast<uintptr_t>(record.row) + node->group, record.words);
  std::copy(record.words.begin(), record.words.end(), node->words.begin());
  for (size_t i = 0; i < record.tensors.size(); ++i) {
    const TensorArg& tensor = record.tensors[i];
    if (!tensor.storage) {
      h = mix(h, 0);
      continue;
    }
    node->inputs[i] = {value_of(tensor), tensor.view};
    const View& layout = node->inputs[i].value->layout;
    h = mix(h, tensor.view.hash());
    h = mix(h, tensor.view.same_as(layout) ? 1 : layout.hash());
  }
  std::copy(record.scalars.begin(), record.scalars.end(), node->scalars.begin());
  std::copy(rng.begin(), rng.end(), node->scalars.begin() + static_cast<int64_t>(record.scalars.size()));
  for (const Scalar& scalar : node->scalars) h = mix(h, scalar.floating);
  node->hash = h;
  return node;
}

// Scalars that the words name: what is missing from record.scalars of a random operation are seed and offset.
size_t named_scalars(std::span<const uint64_t> words) {
  size_t count = 0;
  for (size_t at = 0; at < words.size();) {
    const ArgKind kind = static_cast<ArgKind>(words[at] & 0xFF);
    const uint64_t n = words[at++] >> 8;
    if (kind == ArgKind::Scalar || kind == ArgKind::Scalars) count += n;
    if (kind == ArgKind::Int || kind == ArgKind::Double || kind == ArgKind::Bool) ++at;
    if (kind == ArgKind::Ints) at += n;
    if (kind == ArgKind::String) at += (n + 7) / 8;
  }
  return count;
}

}  // namespace

void Session::State::order_exposed(const Record& record) {
  for (const TensorArg& tensor : record.tensors)
    if (tensor.storage) order_exposed(tensor.storage->home);
  for (const ResultArg& result : record.results)
    if (result.storage) order_exposed(result.storage->home);
}

void Session::record(const Record& record) {
  std::lock_guard guard(state_->lock);
  Trace& trace = state_->join(record);
  Scalar rng[2];
  size_t rng_count = 0;
  if ((record.row->flags & kRandom) && named_scalars(record.words) == record.scalars.size()) {
    int64_t most = 0;
    for (const ResultArg& result : record.results) most = std::max(most, result.view.count());
    rng[0].bits = seed();
    rng[1].bits = take_offset(static_cast<uint64_t>(most + 3) / 4);
    rng_count = 2;
  }
  const size_t wanted = static_cast<size_t>(std::count_if(record.results.begin(), record.results.end(), [](const ResultArg& r) { return r.storage; }));
  NodePtr node = make_node(record, wanted, {rng, rng_count}, [&](const TensorArg& tensor) { return state_->current(*tensor.storage, tensor.view); });
  std::array<ValuePtr, 4> few;
  std::vector<ValuePtr> many(wanted > few.size() ? wanted : 0);
  ValuePtr* values = many.empty() ? few.data() : many.data();
  size_t made = 0;
  for (const ResultArg& result : record.results) {
    if (!result.storage) continue;
    View& output = node->outputs[made];
    output = covers(*result.storage, result.view) ? result.view : View(result.view.dtype, result.view.dims());
    node->hash = mix(node->hash, output.hash());
    values[made] = state_->make_value();
    values[made]->node = node;
    values[made]->output = static_cast<uint32_t>(made);
    values[made++]->layout = output;
  }
  bool exposed = std::any_of(record.tensors.begin(), record.tensors.end(), [](const TensorArg& t) { return t.storage && t.storage->home; });
  made = 0;
  for (const ResultArg& result : record.results) {
    if (!result.storage) continue;
    ValuePtr value = std::move(values[made++]);
    if (!covers(*result.storage, result.view)) {
      if (result.view.count() == 0) continue;
      value = state_->write_view(*result.storage, result.view, std::move(value), record.backward, record.line);
    }
    state_->set_pending(trace, *result.storage, std::move(value));
    exposed |= static_cast<bool>(result.storage->home);
  }
  if (++trace.operations >= state_->budget) {
    state_->flush(trace, "budget", {});
  } else if (exposed) {
    // Its address is known outside: whoever writes there next must not change what this operation reads or be overtaken by what it writes.
    state_->order_exposed(record);
    state_->flush(trace, "exposed memory", {});
    if (!state_->is_ordered_outside()) return state_->settle(0);
    state_->order_exposed(record);
    state_->settle_fallible();
  } else if (state_->eager) {
    state_->flush(trace, "eager mode", {});
  }
}

void Session::assign(Storage& storage, runtime::BufferPtr buffer, const View& layout, bool exclusive) {
  std::lock_guard guard(state_->lock);
  ValuePtr value = state_->make_value();
  value->buffer = std::move(buffer);
  value->layout = layout;
  value->exclusive = exclusive;
  state_->set_ready(storage, std::move(value));
}

void Session::upload(Storage& storage, const void* source, const View& layout) {
  const size_t bytes = static_cast<size_t>(layout.count() * ir::byte_size(layout.dtype));
  assign(storage, from_host(device(), source, bytes, bytes), layout, true);
}

void Session::upload_pinned(Storage& storage, std::shared_ptr<char> source, const View& layout) {
  assign(storage, from_pinned(device(), std::move(source), static_cast<size_t>(layout.count() * ir::byte_size(layout.dtype))), layout, true);
}

runtime::BufferPtr Session::materialize(Storage& storage, const char* reason) {
  std::string line = state_->line_source && storage.trace ? state_->line_source() : std::string();
  std::lock_guard guard(state_->lock);
  state_->order_exposed(storage.home);
  if (storage.trace) state_->flush(*storage.trace->root(), reason, line);
  const View layout = as_bytes(storage);
  ValuePtr& value = state_->current(storage, layout);
  if (!value->buffer) {
    value->buffer = from_host(state_->use_device(), nullptr, 0, storage.bytes);
    value->exclusive = true;
  }
  return value->buffer;
}

runtime::BufferPtr Session::written(Storage& storage, const char* reason) {
  runtime::BufferPtr buffer = materialize(storage, reason);
  try {
    buffer->wait_written();
  } catch (const Error&) {
    std::lock_guard guard(state_->lock);
    state_->settle(0);
    throw;
  }
  return buffer;
}

std::shared_ptr<const void> Session::read(Storage& storage, const char* reason) { return to_host(device(), written(storage, reason)); }

bool Session::is_host_memory() { return lazy::is_host_memory(device()); }

ValuePtr Session::State::copy_of(const Value& value) {
  ValuePtr fresh = make_value();
  fresh->layout = value.layout;
  fresh->buffer = duplicate(use_device(), value.buffer, value.buffer->size(), value.buffer->size());
  fresh->exclusive = true;
  return fresh;
}

void* Session::expose(Storage& storage) {
  runtime::BufferPtr buffer = own_version(storage);
  std::lock_guard guard(state_->lock);
  if (!state_->is_ordered_outside()) buffer->wait_unused();
  state_->current(storage, as_bytes(storage))->exclusive = false;
  storage.home = buffer;
  state_->order_exposed(buffer);
  return buffer->data();
}

runtime::BufferPtr Session::own_version(Storage& storage) {
  const bool waits = is_host_memory();
  runtime::BufferPtr buffer = waits ? written(storage, "fallback write") : materialize(storage, "fallback write");
  std::lock_guard guard(state_->lock);
  waits ? state_->settle(0) : state_->settle_fallible();
  ValuePtr& value = state_->current(storage, as_bytes(storage));
  // Shared with another storage or read by pending operations: those keep the old bytes. Exposed storages never share (see share()).
  if ((value->use_count() > 1 + value->internal_refs && !storage.home) || value->buffer->is_read_only()) value = state_->copy_of(*value);
  return value->buffer;
}

void Session::settle_fallible() {
  std::lock_guard guard(state_->lock);
  state_->settle_fallible();
}

void Session::rename(Storage& storage, const runtime::BufferPtr& old, const runtime::BufferPtr& fresh) {
  std::lock_guard guard(state_->lock);
  if (!storage.current || storage.current->buffer != old || storage.home) return;
  storage.current->buffer = fresh;
  storage.current->exclusive = false;
}

std::shared_ptr<void> Session::write_in_place(Storage& storage) {
  const runtime::BufferPtr buffer = own_version(storage);
  if (is_host_memory()) buffer->wait_unused();
  return to_host(device(), buffer);
}

void Session::share(Storage& to, Storage& from) {
  if (from.home) {
    is_host_memory() ? written(from, "copy of exposed memory") : materialize(from, "copy of exposed memory");
    std::lock_guard guard(state_->lock);
    state_->set_ready(to, state_->copy_of(*state_->current(from, as_bytes(from))));
    state_->order_exposed(from.home);
    return;
  }
  std::lock_guard guard(state_->lock);
  if (!from.current) return;
  if (from.current->node) {
    state_->set_pending(*from.trace->root(), to, from.current);
  } else {
    state_->set_ready(to, from.current);
  }
}

void Session::resize(Storage& storage, size_t bytes) {
  if (bytes == storage.bytes) return;
  std::lock_guard guard(state_->lock);
  if (!storage.current || storage.bytes == 0) {
    if (storage.trace) storage.trace->root()->remove(storage);
    storage.current.reset();
    storage.bytes = bytes;
    return;
  }
  const runtime::BufferPtr old = written(storage, "resize_");
  THALWEG_CHECK(!storage.home, Invalid, "Cannot resize storage whose address is in use outside: ", storage.bytes, " to ", bytes,
                " bytes; clone the tensor first");
  runtime::BufferPtr grown = duplicate(state_->use_device(), old, std::min(bytes, storage.bytes), bytes);
  const ir::DType dtype = storage.current->layout.dtype;
  storage.bytes = bytes;
  assign(storage, std::move(grown), bytes % static_cast<size_t>(ir::byte_size(dtype)) == 0 ? flat_layout(storage, dtype) : as_bytes(storage), true);
}

void Session::sync(const char* reason, bool wait) {
  std::string line = state_->line_source ? state_->line_source() : std::string();
  std::lock_guard guard(state_->lock);
  state_->count("MarkStep");
  if (!state_->in_flight.empty()) lazy::is_host_memory(state_->use_device()) ? state_->settle_fallible() : state_->poll();
  Trace& trace = state_->thread_trace();
  state_->flush(trace, reason, line);
  if (wait) state_->settle(0);
}

void Session::wait_all() {
  std::lock_guard guard(state_->lock);
  state_->settle(0);
}

void Session::abandon() {
  std::lock_guard guard(state_->lock);
  auto error = std::make_shared<Error>(ErrorKind::Device, "the device was shut down before this value was computed");
  state_->drop_all_pending(error);
  try {
    state_->settle(0);
  } catch (const Error&) {
  }
}

uint64_t Session::seed() const { return state_->seed.load(); }
uint64_t Session::take_offset(uint64_t count) { return state_->offset.fetch_add(count); }
void Session::set_rng(uint64_t seed, uint64_t offset) {
  state_->seed = seed;
  state_->offset = offset;
}

void Session::set_eager(bool on) {
  std::lock_guard guard(state_->lock);
  state_->eager = on;
}

void Session::set_budget(int64_t ops) {
  THALWEG_CHECK(ops > 0, Invalid, "The flush budget must be positive, got ", ops);
  std::lock_guard guard(state_->lock);
  state_->budget = ops;
}

void Session::set_device_hook(std::function<void(runtime::Device&)> hook) {
  std::lock_guard guard(state_->lock);
  state_->device_hook = std::move(hook);
}

void Session::set_exposed_order(std::function<void(const runtime::BufferPtr&)> order) {
  std::lock_guard guard(state_->lock);
  state_->exposed_order = std::move(order);
}

void Session::order_exposed(const runtime::BufferPtr& buffer) {
  std::lock_guard guard(state_->lock);
  state_->order_exposed(buffer);
}

void Session::set_numerics_source(std::function<Numerics()> source) {
  std::lock_guard guard(state_->lock);
  state_->numerics_source = std::move(source);
}

void Session::set_nan_guard(bool on) {
  std::lock_guard guard(state_->lock);
  state_->nan_guard = on;
}

std::string Session::pending_text(std::span<Storage* const> wanted) {
  std::lock_guard guard(state_->lock);
  std::vector<Storage*> pending = state_->thread_trace().pending;
  if (!wanted.empty()) std::erase_if(pending, [&](Storage* s) { return std::find(wanted.begin(), wanted.end(), s) == wanted.end(); });
  if (pending.empty()) return "";
  return portable_text(*lower(collect(pending, state_->nan_guard), state_->nan_guard).function);
}

std::vector<FlushRecord> Session::flushes() const {
  std::lock_guard guard(state_->lock);
  return {state_->log.begin(), state_->log.end()};
}

Counters& Session::counters() { return state_->counters; }
std::mutex& Session::counters_lock() { return state_->counters_lock; }

void Session::set_line_source(std::function<std::string()> source) {
  std::lock_guard guard(state_->lock);
  state_->line_source = std::move(source);
}

}  // namespace thalweg::lazy
