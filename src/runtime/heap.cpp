// Best-fit search in size bins, splitting, joining and giving back of blocks.
#include "runtime/heap.h"

#include <algorithm>

#include "runtime/race_checker.h"
#include "runtime/rules.h"

namespace thalweg::runtime {
namespace {

constexpr int kLooks = 64;  // blocks of one bin that a search looks at

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Frontier Block::death() const {
  Frontier frontier;
  if (holds(Rule::DeathHoldsReads)) frontier.join(reads_);
  if (holds(Rule::DeathHoldsWrite)) frontier.add(last_);
  return frontier;
}

bool Block::is_complete() const { return is_done(death()); }

void Block::set_death(const Frontier& frontier) {
  last_ = {};
  reads_.clear();
  reads_.join(frontier);
}

Heap::Heap(Backend& backend, Device& device, Pool& pool, size_t granule, size_t range_bytes)
    : backend_(backend), device_(device), pool_(pool), granule_(granule), range_bytes_(range_bytes) {}

Heap::~Heap() {
  if (range_ == nullptr) return;
  backend_.unreserve(range_, range_bytes_);
}

Block* Heap::make_block(char* base, size_t bytes, BlockState state) {
  Block* block;
  if (!spare_.empty()) {
    block = spare_.back();
    spare_.pop_back();
  } else {
    block = &storage_.emplace_back(device_, pool_, this);
  }
  block->set_base(base);
  block->bytes = bytes;
  block->set_state(state);
  block->lane = nullptr;
  block->set_death({});
  block->next = block->previous = block->address_next = block->address_previous = nullptr;
  return block;
}

void Heap::drop_block(Block* block) { spare_.push_back(block); }

bool Heap::open_range() {
  if (range_ != nullptr) return true;
  range_ = backend_.reserve(range_bytes_);
  if (range_ == nullptr) return false;
  first_ = make_block(range_, range_bytes_, BlockState::Unbacked);
  unbacked_[range_] = first_;
  return true;
}

void Heap::link(Block* block) {
  block->set_state(BlockState::Free);
  block->bin = std::min(class_within(std::max(block->bytes, kGranule)), kSizeClasses - 1);
  block->previous = nullptr;
  block->next = bins_[block->bin];
  if (block->next) block->next->previous = block;
  bins_[block->bin] = block;
  occupied_[block->bin / 64] |= uint64_t{1} << (block->bin % 64);
}

void Heap::unlink(Block* block) {
  (block->previous ? block->previous->next : bins_[block->bin]) = block->next;
  if (block->next) block->next->previous = block->previous;
  if (!bins_[block->bin]) occupied_[block->bin / 64] &= ~(uint64_t{1} << (block->bin % 64));
  block->next = block->previous = nullptr;
}

// Leaves `bytes` in `block` and returns the rest, which is in no list; null when there is no rest.
Block* Heap::cut(Block* block, size_t bytes) {
  if (block->bytes < bytes + granule_) return nullptr;
  Block* rest = make_block(block->base() + bytes, block->bytes - bytes, block->state());
  if (holds(Rule::SplitCopies)) rest->set_death(block->death());
  block->bytes = bytes;
  rest->address_previous = block;
  rest->address_next = block->address_next;
  if (rest->address_next) rest->address_next->address_previous = rest;
  block->address_next = rest;
  return rest;
}

// Two free neighbours become one if that makes neither wait for a timeline that it need not wait for, or if both wait for one and the same at most.
bool Heap::can_join(const Block* left, const Block* right) const {
  if (!left || !right || left->state() != BlockState::Free || right->state() != BlockState::Free) return false;
  Frontier a = left->death(), b = right->death();
  size_t size = a.size();
  a.join(b);
  return a.size() <= 1 || (a.size() == size && a.size() == b.size());
}

// Takes the right neighbour, which is in no list, into `block`.
void Heap::absorb_next(Block* block) {
  Block* right = block->address_next;
  if (holds(Rule::CoalesceJoins)) {
    Frontier joined = block->death();
    joined.join(right->death());
    block->set_death(joined);
  }
  block->bytes += right->bytes;
  block->address_next = right->address_next;
  if (block->address_next) block->address_next->address_previous = block;
  drop_block(right);
}

// Puts a block that is in no list into the bins, joined with its neighbours.
void Heap::settle(Block* block) {
  block->set_state(BlockState::Free);
  if (!deterministic_ && !block->death().empty() && block->is_complete()) block->set_death({});
  if (can_join(block, block->address_next)) {
    unlink(block->address_next);
    absorb_next(block);
  }
  if (Block* left = block->address_previous; can_join(left, block)) {
    unlink(left);
    absorb_next(left);
    block = left;
  }
  link(block);
}

void Heap::give(Block* block) {
  block->lane = nullptr;
  settle(block);
}

Block* Heap::find(size_t bytes, const Usable& usable) const {
  for (unsigned word = class_within(bytes) / 64; word < occupied_.size(); ++word) {
    uint64_t bits = occupied_[word];
    if (word == class_within(bytes) / 64) bits &= ~uint64_t{0} << (class_within(bytes) % 64);
    for (; bits != 0; bits &= bits - 1) {
      Block* best = nullptr;
      int looks = 0;
      for (Block* block = bins_[word * 64 + std::countr_zero(bits)]; block && looks < kLooks; block = block->next, ++looks) {
        if (block->bytes >= bytes && (best == nullptr || block->base() < best->base()) && usable(*block)) best = block;
      }
      if (best) return best;
    }
  }
  return nullptr;
}

Block* Heap::take(size_t bytes, const Usable& usable) {
  Block* block = find(bytes, usable);
  if (block == nullptr) return nullptr;
  unlink(block);
  if (Block* rest = cut(block, bytes)) link(rest);
  block->set_state(BlockState::Live);
  return block;
}

size_t Heap::growth(size_t bytes) const { return round_up(bytes, backend_.page_bytes()); }

Block* Heap::grow(size_t bytes, const Usable& usable) {
  if (!open_range()) return nullptr;
  for (auto& [base, unbacked] : unbacked_) {
    Block* left = unbacked->address_previous;
    bool extend = left && left->state() == BlockState::Free && left->bytes < bytes && usable(*left);
    size_t fresh = growth(bytes - (extend ? left->bytes : 0));
    if (unbacked->bytes < fresh) continue;
    if (!backend_.commit(base, fresh)) return nullptr;
    committed_ += fresh;
    Block* block = unbacked;
    unbacked_.erase(unbacked_.find(base));
    Block* beyond = cut(block, fresh);
    block->set_state(BlockState::Free);
    if (beyond) set_unbacked(beyond);
    if (extend) {
      unlink(left);
      absorb_next(left);
      block = left;
    }
    Block* rest = cut(block, bytes);
    block->set_state(BlockState::Live);
    if (rest) settle(rest);
    return block;
  }
  return nullptr;
}

void Heap::consolidate() {
  for (Block* block = first_; block; block = block->address_next) {
    if (block->state() != BlockState::Free) continue;
    unlink(block);
    if (!deterministic_ && block->is_complete()) block->set_death({});
    if (Block* left = block->address_previous; can_join(left, block)) {
      unlink(left);
      absorb_next(left);
      block = left;
    }
    link(block);
  }
}

// Makes a block of pages without memory, joined with such neighbours.
void Heap::set_unbacked(Block* block) {
  block->set_state(BlockState::Unbacked);
  block->set_death({});
  if (Block* right = block->address_next; right && right->state() == BlockState::Unbacked) {
    unbacked_.erase(right->base());
    absorb_next(block);
  }
  if (Block* left = block->address_previous; left && left->state() == BlockState::Unbacked) {
    absorb_next(left);
    return;
  }
  unbacked_[block->base()] = block;
}

// The whole pages of a free block that no work uses any more: first and one past the last, as offsets into the range.
std::pair<size_t, size_t> Heap::idle_pages(const Block* block) const {
  if (block->state() != BlockState::Free || (!block->is_complete() && holds(Rule::TrimNeedsCompletion))) return {0, 0};
  const size_t page = backend_.page_bytes(), offset = static_cast<size_t>(block->base() - range_);
  const size_t begin = round_up(offset, page), end = (offset + block->bytes) / page * page;
  return begin < end ? std::pair(begin, end) : std::pair<size_t, size_t>(0, 0);
}

size_t Heap::idle() const {
  size_t bytes = 0;
  for (const Block* block = first_; block; block = block->address_next) {
    const auto [begin, end] = idle_pages(block);
    bytes += end - begin;
  }
  return bytes;
}

size_t Heap::trim(size_t most) {
  consolidate();
  std::vector<std::pair<size_t, Block*>> candidates;  // idle bytes; joining of pages without memory touches none of these blocks
  for (Block* block = first_; block; block = block->address_next) {
    if (const auto [begin, end] = idle_pages(block); begin < end) candidates.push_back({end - begin, block});
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  size_t given = 0;
  for (const auto& [idle, block] : candidates) {
    if (given >= most) break;
    auto [begin, end] = idle_pages(block);
    end = std::min(end, begin + round_up(std::min(most - given, end - begin), backend_.page_bytes()));
    // To queued work that still uses them, pages that go are as bad as pages that change.
    if (RaceChecker* checker = race_checker.load(std::memory_order_relaxed)) checker->host_access({range_ + begin, end - begin, true, 0});
    backend_.decommit(range_ + begin, end - begin);
    unlink(block);
    Block* middle = block;
    const size_t offset = static_cast<size_t>(block->base() - range_);
    if (begin > offset) {
      middle = cut(block, begin - offset);
      link(block);
    }
    if (Block* tail = cut(middle, end - begin)) link(tail);
    given += end - begin;
    set_unbacked(middle);
  }
  committed_ -= given;
  return given;
}

void Heap::add_slab(char* base, size_t bytes, const Frontier& after) {
  // Behind a slab comes an empty block without memory, which keeps it from being joined with a neighbour.
  Block *block = make_block(base, bytes, BlockState::Free), *border = make_block(base + bytes, 0, BlockState::Unbacked);
  block->address_next = border;
  border->address_previous = block;
  border->address_next = first_;
  if (first_) first_->address_previous = border;
  first_ = block;
  block->set_death(after);
  slabs_[base] = bytes;
  committed_ += bytes;
  link(block);
}

std::vector<std::pair<char*, size_t>> Heap::take_idle_slabs() {
  consolidate();
  std::vector<std::pair<char*, size_t>> idle;
  for (Block *block = first_, *next; block; block = next) {
    next = block->address_next;
    auto slab = slabs_.find(block->base());
    if (slab == slabs_.end() || block->state() != BlockState::Free || block->bytes != slab->second) continue;
    if (!block->is_complete() && holds(Rule::TrimNeedsCompletion)) continue;
    if (RaceChecker* checker = race_checker.load(std::memory_order_relaxed)) checker->host_access({block->base(), block->bytes, true, 0});
    idle.push_back(*slab);
    unlink(block);
    Block *before = block->address_previous, *border = block->address_next, *after = border->address_next;
    (before ? before->address_next : first_) = after;
    if (after) after->address_previous = before;
    next = after;
    committed_ -= block->bytes;
    slabs_.erase(slab);
    drop_block(block);
    drop_block(border);
  }
  return idle;
}

void Heap::each(const std::function<void(Block&)>& visit) const {
  for (Block* block = first_; block; block = block->address_next) {
    if (block->state() != BlockState::Unbacked) visit(*block);
  }
}

}  // namespace thalweg::runtime
