// Running a task.
#include "runtime/backend.h"

namespace thalweg::runtime {

void run_task(Task& task, Axis& axis, void* native) {
  std::exception_ptr error;
  for (const Point& source : task.sources) {
    if ((error = source.axis->error(source.epoch))) break;
  }
  if (!error && task.work) {
    try {
      task.work(native);
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (error) axis.fail(task.epoch, std::move(error));
  task.work = nullptr;
}

}  // namespace thalweg::runtime
