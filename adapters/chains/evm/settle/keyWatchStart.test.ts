import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { watchedKey } from '../../../../test/helpers/chains/evm/settle/keyWatch.ts'

let block = 0
/** There is always a new one. */
const newestBlock = async () => block++

interface StartCase {
  readonly name: string
  /** Responses for `latest` and `pending`, one per check. The last one is repeated. */
  readonly says: readonly (readonly [number, number])[]
  /** The ledger has attempts for all nonces below this one. Default: for none. */
  readonly bookedTo?: number
  readonly next: number
  readonly polls: number
  readonly isShared?: boolean
}

const starts: readonly StartCase[] = [
  { name: 'a key that nobody has used', says: [[0, 0]], next: 0, polls: 1 },
  { name: 'the books know of all', says: [[7, 7]], bookedTo: 6, next: 7, polls: 1 },
  { name: 'nobody knows of them', says: [[7, 7]], next: 7, polls: 3 },
  {
    name: 'one answer has too many',
    says: [
      [7, 37],
      [7, 7],
    ],
    bookedTo: 6,
    next: 7,
    polls: 3,
  },
  {
    name: 'a whole look has too many',
    says: [
      [37, 37],
      [7, 7],
    ],
    next: 7,
    polls: 4,
  },
  {
    name: 'two whole looks have too many',
    says: [
      [37, 37],
      [37, 37],
      [7, 7],
    ],
    bookedTo: 6,
    next: 7,
    polls: 5,
  },
  {
    name: 'some of those that were said twice are used',
    says: [
      [37, 37],
      [37, 37],
      [9, 9],
      [7, 7],
    ],
    bookedTo: 6,
    next: 9,
    polls: 5,
  },
  {
    name: 'one that was said twice is said again by the last answer',
    says: [
      [37, 37],
      [37, 37],
      [7, 7],
      [37, 37],
    ],
    bookedTo: 6,
    next: 37,
    polls: 4,
  },
  { name: 'the pool is asked of a node that lags', says: [[7, 3]], bookedTo: 6, next: 7, polls: 1 },
  { name: 'the blocks are asked of a node that lags', says: [[3, 7]], bookedTo: 6, next: 7, polls: 1 },
  {
    name: 'it catches up',
    says: [
      [3, 3],
      [7, 7],
    ],
    bookedTo: 6,
    next: 7,
    polls: 2,
  },
  {
    name: 'it catches up late',
    says: [
      [3, 3],
      [3, 3],
      [7, 7],
    ],
    bookedTo: 6,
    next: 7,
    polls: 3,
  },
  {
    name: 'nobody knows of them, and nodes take turns',
    says: [
      [7, 7],
      [3, 3],
      [7, 7],
      [3, 3],
      [7, 7],
    ],
    next: 7,
    polls: 5,
  },
  { name: 'the chain has less than the books', says: [[3, 3]], bookedTo: 6, next: 3, polls: 3 },
  { name: 'others wait in the pool', says: [[7, 9]], bookedTo: 6, next: 9, polls: 2, isShared: true },
]

t.test(
  'at the start a number that nobody here knows of is supposed when it was said twice, and counts when it is said again',
  (t) =>
    Promise.all(
      starts.map(async ({ name, says, bookedTo = -1, next, polls, isShared = false }) => {
        let looked = 0
        const countOf = async (block: string) => {
          const [mined, pooled] = says[Math.min(looked, says.length - 1)]!
          if (block === 'latest') return mined
          looked++
          return pooled
        }
        const { watch, queue } = watchedKey({ countOf, newestBlock })
        const numbers = new Set(Array.from({ length: bookedTo + 1 }, (_, nonce) => nonce))
        watch.begin(async () => ({ nonces: numbers, isComplete: false }))
        await watch.check()
        t.match([looked, watch.isShared, queue.next ?? 0], [polls, isShared, next], name)
      }),
    ),
)

t.test(
  'where no node answers the look at the start, the first number waits until one was said twice',
  async (t) => {
    let isUnavailable = true
    let requestCount = 0
    const countOf = async () => {
      if (isUnavailable) throw new Error('away')
      return requestCount++ < 2 ? 37 : 7
    }
    const { watch, queue } = watchedKey({ countOf, newestBlock })
    watch.begin()
    await watch.check()
    await t.rejects(queue.take())
    isUnavailable = false
    t.equal(await queue.take(), 7)
  },
)

/** A key for which the ledger has 7 nonces, at the start of a watch of it. */
function starting(says: (block: string) => number, sharedKeyMs = 60_000) {
  const countOf = async (block: string) => says(block)
  const { watch, queue } = watchedKey({ countOf, newestBlock, sharedKeyMs })
  watch.begin(async () => ({ nonces: new Set([5, 6]), isComplete: false }))
  return { watch, queue }
}

t.test('what waits in the pool at the start, and is dropped, is taken back', async (t) => {
  const dropIt = async (isSoon: boolean) => {
    let pooled = 37
    const { watch, queue } = starting((block) => (block === 'latest' ? 7 : pooled), isSoon ? 60_000 : 500)
    await watch.check()
    t.match([watch.isShared, queue.next, queue.hasSuspicion], [true, 37, true])
    for (let look = 0; look < 2 && !isSoon; look++) {
      await sleep(510)
      await watch.check()
      t.match([watch.isShared, queue.next, queue.hasSuspicion], [true, 37, true])
    }
    pooled = 7
    await sleep(isSoon ? 2_100 : 800)
    await watch.check()
    t.match(
      [watch.isShared, queue.hasSuspicion],
      [false, false],
      isSoon ? 'before anybody else is seen' : 'after that',
    )
    t.equal(await queue.take(), 7, isSoon ? 'before anybody else is seen' : 'after that')
  }
  await Promise.all([dropIt(true), dropIt(false)])
})

t.test('what waits in the pool at the start, and is mined, keeps nobody for longer', async (t) => {
  let mined = 7
  const { watch, queue } = starting((block) => (block === 'latest' ? mined : 9))
  await watch.check()
  t.match([watch.isShared, queue.next], [true, 9])
  mined = 9
  await sleep(2_100)
  await watch.check()
  t.match([watch.isShared, queue.next, queue.hasSuspicion], [false, 9, false])
})

t.test('where nobody looks, the first number waits until what was said twice is said again', async (t) => {
  let requestCount = 0
  const { queue } = starting(() => (requestCount++ < 4 ? 37 : 7), 0)
  t.equal(await queue.take(), 7)
})

t.test('a number that is asked for beside the looks is believed no sooner than by them', async (t) => {
  let wrong = 0
  const { watch, queue } = starting(() => (wrong-- > 0 ? 37 : 7), 500)
  await watch.check()
  t.equal(await queue.take(), 7)
  queue.recheck()
  wrong = 3
  await t.rejects(queue.take(), 'another program may be signing')
  t.match([watch.isShared, queue.next], [true, 37])
  await sleep(800)
  await watch.check()
  t.equal(await queue.take(), 8)
})
