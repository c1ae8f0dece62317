import { executionAsyncResource } from 'node:async_hooks'

const kept: object[] = []

/**
 * Keeps one of the objects that `process.nextTick` creates for as long as this process runs. Node creates these objects with
 * computed keys. V8 has a fast path for that while it knows the objects' hidden class. A garbage collection that shrinks the
 * heap removes every hidden class without objects, and these objects are short-lived. Without the class, each object would cost
 * four calls into V8's runtime, which is a sixth of the cost of a 402 (bench/steps.ts).
 */
export function keepTickShape(): void {
  process.nextTick(() => void kept.push(executionAsyncResource()))
}
