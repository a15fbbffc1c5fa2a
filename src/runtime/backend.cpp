// Running a task.
#include "runtime/backend.h"

#include "runtime/history.h"

namespace thalweg::runtime {

void run_task(Task& task, Axis& axis, void* native) {
  std::exception_ptr error;
  for (const Point& source : task.sources) {
    if ((error = source.axis->error(source.epoch))) break;
  }
  if (!error && task.work) {
    History* recording = history.load(std::memory_order_relaxed);
    const int64_t start = recording ? history_now() : 0;
    try {
      task.work(native);
    } catch (...) {
      error = std::current_exception();
    }
    if (recording) recording->ran(axis.name, task.label, start, history_now());
  }
  if (error) axis.fail(task.epoch, std::move(error));
  task.work = nullptr;
}

}  // namespace thalweg::runtime
