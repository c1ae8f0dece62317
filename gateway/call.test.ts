import t from 'tap'
import type { Generation } from '../core/kernel/generation.ts'
import type { Program } from '../core/kernel/program.ts'
import type { Exchange } from '../core/plugin/exchange.ts'
import { handled } from '../core/plugin/reply.ts'
import { silentLog } from '../core/ports/log.ts'
import { endOverdue, newCalls, runCall } from './call.ts'

/** As much of an exchange, a program and a generation as a call looks at that a hook answers later. */
function start() {
  const calls = newCalls(silentLog)
  const counts = { entered: 0, left: 0, finished: 0 }
  const generation = { enter: () => counts.entered++, leave: () => counts.left++ } as unknown as Generation
  const postAnswer = [{ plugin: 'p', phase: 'deliver', hook: () => void counts.finished++ }]
  const hooks = [(x: { answer: Promise<unknown> }) => x.answer]
  const shape = { hooks, steps: [{ plugin: 'p', phase: 'claim' }], check: undefined, postAnswer }
  const program = { isPaid: false, shape } as unknown as Program
  const begin = () => {
    const { promise: answer, resolve, reject } = Promise.withResolvers<unknown>()
    const door = { hasBegun: false, hasEnded: false, isClosed: false, send: () => true }
    const x = {
      ...{ door, answer, link: { id: 'l' }, claim: null, purchase: null },
      isOver: false,
      status: 0,
    }
    runCall(x as unknown as Exchange, program, generation, calls)
    return { x, resolve, reject }
  }
  return { calls, counts, begin }
}

t.test('calls that end in any order, also over their time, leave the ones that are under way', async (t) => {
  const { calls, counts, begin } = start()
  const under = () => calls.underWay.map(({ x }) => x as unknown)
  const all = Array.from({ length: 9 }, begin)
  const left = new Set<unknown>(all.map(({ x }) => x))
  for (const [n, how] of [
    [0, 'resolve'],
    [8, 'reject'],
    [7, 'resolve'],
    [3, 'reject'],
  ] as const) {
    all[n]![how](handled)
    await new Promise(setImmediate)
    left.delete(all[n]!.x)
    t.same(new Set(under()), left)
    t.equal(under().length, left.size)
  }
  endOverdue(calls, 60_000, performance.now() + 61_000)
  t.same(under(), [])
  // Later than they might.
  for (const { resolve } of all) resolve(handled)
  await new Promise(setImmediate)
  t.same(under(), [])
  t.same(counts, { entered: 9, left: 9, finished: 9 })
})
