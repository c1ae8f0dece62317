import t from 'tap'
import { handled } from '../core/http/replies.ts'
import type { Generation } from '../core/kernel/generation.ts'
import type { Pipeline } from '../core/kernel/pipeline.ts'
import type { Exchange } from '../core/plugin/exchange.ts'
import { silentLog } from '../core/ports/log.ts'
import { endOverdue, newCalls, runCall } from './call.ts'

/** The parts of an exchange, a pipeline and a generation that a call needs while a hook is pending. */
function start() {
  const calls = newCalls(silentLog)
  const counts = { entered: 0, left: 0, finished: 0 }
  const generation = { enter: () => counts.entered++, leave: () => counts.left++ } as unknown as Generation
  const afterResponse = [{ plugin: 'p', phase: 'deliver', hook: () => void counts.finished++ }]
  const hooks = [(x: { response: Promise<unknown> }) => x.response]
  const shape = { hooks, steps: [{ plugin: 'p', phase: 'claim' }], check: undefined, afterResponse }
  const pipeline = { isPaid: false, shape } as unknown as Pipeline
  const begin = (more: object = {}) => {
    const { promise: response, resolve, reject } = Promise.withResolvers<unknown>()
    const transport = { hasBegun: false, hasEnded: false, isClosed: false, send: () => true }
    const x = {
      transport,
      response,
      link: { id: 'l' },
      claim: null,
      purchase: null,
      isOver: false,
      status: 0,
      meter: null,
      ...more,
    }
    runCall(x as unknown as Exchange, pipeline, generation, calls)
    return { x, resolve, reject }
  }
  return { calls, counts, begin }
}

t.test('calls that end in any order, also over their time, leave the ones that are under way', async (t) => {
  const { calls, counts, begin } = start()
  const under = () => calls.underWay.map(({ x }) => x as unknown)
  const all = Array.from({ length: 9 }, () => begin())
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

t.test(
  'a call that charges a response which was already sent is ended only once its payment has expired',
  async (t) => {
    const { calls, begin } = start()
    const ofPayment = (validForMs: number) => ({
      meter: { ended: 'whole', chargeUntilMs: Date.now() + validForMs },
    })
    const charging = begin(ofPayment(60_000))
    const expired = begin(ofPayment(-1))
    endOverdue(calls, 60_000, performance.now() + 61_000)
    t.same([charging.x.isOver, expired.x.isOver], [false, true])
    charging.resolve(handled)
    await new Promise(setImmediate)
    t.same(calls.underWay, [])
  },
)
