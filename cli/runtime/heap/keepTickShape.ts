import { executionAsyncResource } from 'node:async_hooks'

const kept: object[] = []

/**
 * Keeps one of the objects that `process.nextTick` makes, for as long as the process lives. Node writes them with computed keys, which V8 does
 * by a short way for the one hidden class that it knows of them. A collection that makes the heap small takes every hidden class along
 * that no object has, and these objects live for a moment: from then on each of them would be four calls of V8's runtime, a sixth of what a
 * 402 costs (bench/challenge.ts).
 */
export function keepTickShape(): void {
  process.nextTick(() => void kept.push(executionAsyncResource()))
}
