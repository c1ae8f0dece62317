import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { watchedKey } from '../../../../test/helpers/chains/evm/settle/keyWatch.ts'
import type { KeyWatch } from './keyWatch.ts'
import type { NonceQueue } from './nonces.ts'

/** A key whose next nonce is 5, and whose node has just reported those below 9 as used by another program. */
async function suspecting({
  open = [],
  sharedKeyMs = 100,
}: {
  open?: readonly number[]
  sharedKeyMs?: number
}) {
  let responses: (number | Error)[] = [5]
  const countOf = async () => {
    const response = responses.length > 1 ? responses.shift()! : responses[0]!
    if (response instanceof Error) throw response
    return response
  }
  const { watch, queue } = watchedKey({ countOf, sharedKeyMs, open, firstFree: countOf })
  watch.begin(async () => ({ nonces: new Set([4]), isComplete: false }))
  await watch.check()
  queue.release(await queue.take())
  // Time for the next look.
  await sleep(2_100)
  responses = [9]
  await watch.check()
  return {
    watch,
    queue,
    /** Responses from now on. The last one is repeated. */
    say: (...those: (number | Error)[]) => void (responses = those),
  }
}

interface Case {
  readonly name: string
  /** What the node says when the wait is over. */
  readonly says: readonly (number | Error)[]
  readonly open?: readonly number[]
  readonly meanwhile?: (watch: KeyWatch, queue: NonceQueue) => unknown
  readonly next: number
}

const cases: readonly Case[] = [
  { name: 'the node has taken them back', says: [5], next: 5 },
  { name: 'one of two answers has them still', says: [5, 9], next: 9 },
  { name: 'some of them are used', says: [7, 6], next: 7 },
  { name: 'the node says them again', says: [9], next: 9 },
  { name: 'the second answer has more', says: [5, 60], next: 9 },
  { name: 'the node knows of less than is signed here', says: [0], next: 5 },
  { name: 'the store has payments for some of them', says: [5], open: [3, 6, 30], next: 7 },
  { name: 'one above is given out', says: [5], meanwhile: (_, queue) => queue.take(), next: 10 },
  {
    name: 'it comes back, and a node lags',
    says: [5, 5, 5, 9],
    meanwhile: (watch) => watch.begin(),
    next: 9,
  },
  {
    name: 'it comes back, and nobody has used them',
    says: [5],
    meanwhile: (watch) => watch.begin(),
    next: 5,
  },
]

t.test('numbers that somebody else seemed to have used are asked for once more after the wait', (t) =>
  Promise.all(
    cases.map(async ({ name, says, open = [], meanwhile, next }) => {
      const { watch, queue, say } = await suspecting({ open })
      t.match([watch.isShared, queue.next], [true, 9], name)
      await meanwhile?.(watch, queue)
      say(...says)
      await sleep(160)
      await watch.check()
      t.match([watch.isShared, queue.next], [false, next], name)
    }),
  ),
)

t.test('nothing is signed above them while the node does not answer', async (t) => {
  const { watch, queue, say } = await suspecting({})
  for (const response of [new Error('away'), 5]) {
    say(response)
    await sleep(160)
    await watch.check()
    const isUnavailable = response !== 5
    t.match([watch.isShared, queue.next], [isUnavailable, isUnavailable ? 9 : 5])
  }
})

t.test('a node that lags takes nothing back before the wait is over', async (t) => {
  const { watch, queue, say } = await suspecting({ sharedKeyMs: 2_400 })
  await sleep(2_100)
  say(5)
  await watch.check()
  t.match([watch.isShared, queue.next], [true, 9])
  say(9)
  await sleep(1_600)
  await watch.check()
  t.match([watch.isShared, queue.next, queue.hasSuspicion], [false, 9, false])
})
