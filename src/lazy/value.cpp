// Nodes in one block of memory, and the release of long chains without recursion.
#include "lazy/value.h"

#include <new>
#include <vector>

#include "lazy/trace.h"

namespace thalweg::lazy {
namespace {

// Objects to delete on this thread; deleting one may add more.
template <class T, class Delete>
void delete_later(T* object, Delete delete_one) {
  static thread_local std::vector<T*> waiting;
  static thread_local bool running = false;
  waiting.push_back(object);
  if (running) return;
  running = true;
  while (!waiting.empty()) {
    T* next = waiting.back();
    waiting.pop_back();
    delete_one(next);
  }
  running = false;
}

template <class T>
std::span<T> place(char*& at, size_t count) {
  T* first = reinterpret_cast<T*>(at);
  for (size_t i = 0; i < count; ++i) new (first + i) T();
  at += count * sizeof(T);
  return {first, count};
}

}  // namespace

Node::Node() = default;
Node::~Node() = default;

Node* Node::create(size_t inputs, size_t words, size_t scalars, size_t outputs) {
  static_assert(sizeof(Node) % 8 == 0 && sizeof(Input) % 8 == 0 && sizeof(Scalar) % 8 == 0 && sizeof(View) % 8 == 0);
  char* at = static_cast<char*>(::operator new(sizeof(Node) + inputs * sizeof(Input) + words * 8 + scalars * sizeof(Scalar) + outputs * sizeof(View)));
  Node* node = new (at) Node;
  at += sizeof(Node);
  node->inputs = place<Input>(at, inputs);
  node->words = place<uint64_t>(at, words);
  node->scalars = place<Scalar>(at, scalars);
  node->outputs = place<View>(at, outputs);
  return node;
}

void Node::destroy(Node* node) {
  delete_later(node, [](Node* n) {
    for (Input& input : n->inputs) input.~Input();
    n->~Node();
    ::operator delete(n);
  });
}

void Value::destroy(Value* value) { delete value; }

}  // namespace thalweg::lazy
