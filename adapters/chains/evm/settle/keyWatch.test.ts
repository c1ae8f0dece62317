import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { silentLog as log } from '../../../../core/ports/log.ts'
import { createKeyWatch, type KeyWatch } from './keyWatch.ts'
import { createNonceQueue, type NonceQueue } from './nonceQueue.ts'

/** A key whose next number is 5, and whose node has just said that somebody else has used those below 9. */
async function supposing({
  open = [],
  sharedKeyMs = 100,
}: {
  open?: readonly number[]
  sharedKeyMs?: number
}) {
  let answers: (number | Error)[] = [5]
  const countOf = async () => {
    const answer = answers.length > 1 ? answers.shift()! : answers[0]!
    if (answer instanceof Error) throw answer
    return answer
  }
  const queue = createNonceQueue(countOf)
  const watch = createKeyWatch({
    ...{ network: 'eip155:84532', address: '0x', log, queue, countOf, sharedKeyMs },
    isOwn: () => false,
    openInStore: async () => new Map(open.map((nonce) => [nonce, true])),
  })
  watch.begin(async () => new Set([4]))
  await watch.look()
  queue.giveBack(await queue.take())
  // Time for the next look.
  await sleep(2_100)
  answers = [9]
  await watch.look()
  return {
    watch,
    queue,
    /** From now on; the last one again and again. */
    say: (...those: (number | Error)[]) => void (answers = those),
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
      const { watch, queue, say } = await supposing({ open })
      t.match([watch.isShared, queue.next], [true, 9], name)
      await meanwhile?.(watch, queue)
      say(...says)
      await sleep(160)
      await watch.look()
      t.match([watch.isShared, queue.next], [false, next], name)
    }),
  ),
)

t.test('nothing is signed above them while the node does not answer', async (t) => {
  const { watch, queue, say } = await supposing({})
  for (const answer of [new Error('away'), 5]) {
    say(answer)
    await sleep(160)
    await watch.look()
    const isAway = answer !== 5
    t.match([watch.isShared, queue.next], [isAway, isAway ? 9 : 5])
  }
})

t.test('a node that lags takes nothing back before the wait is over', async (t) => {
  const { watch, queue, say } = await supposing({ sharedKeyMs: 2_400 })
  await sleep(2_100)
  say(5)
  await watch.look()
  t.match([watch.isShared, queue.next], [true, 9])
  say(9)
  await sleep(1_600)
  await watch.look()
  t.match([watch.isShared, queue.next, queue.isSupposing], [false, 9, false])
})

interface StartCase {
  readonly name: string
  /** Answers for `latest` and `pending`, look by look; the last ones again and again. */
  readonly says: readonly (readonly [number, number])[]
  /** What the books have attempts for, all below included; none without. */
  readonly bookedTo?: number
  readonly next: number
  readonly looks: number
  readonly isShared?: boolean
}

const starts: readonly StartCase[] = [
  { name: 'a key that nobody has used', says: [[0, 0]], next: 0, looks: 1 },
  { name: 'the books know of all', says: [[7, 7]], bookedTo: 6, next: 7, looks: 1 },
  { name: 'nobody knows of them', says: [[7, 7]], next: 7, looks: 3 },
  {
    name: 'one answer has too many',
    says: [
      [7, 37],
      [7, 7],
    ],
    bookedTo: 6,
    next: 7,
    looks: 3,
  },
  {
    name: 'a whole look has too many',
    says: [
      [37, 37],
      [7, 7],
    ],
    next: 7,
    looks: 4,
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
    looks: 5,
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
    looks: 5,
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
    looks: 4,
  },
  { name: 'the pool is asked of a node that lags', says: [[7, 3]], bookedTo: 6, next: 7, looks: 1 },
  { name: 'the blocks are asked of a node that lags', says: [[3, 7]], bookedTo: 6, next: 7, looks: 1 },
  {
    name: 'it catches up',
    says: [
      [3, 3],
      [7, 7],
    ],
    bookedTo: 6,
    next: 7,
    looks: 2,
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
    looks: 3,
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
    looks: 5,
  },
  { name: 'the chain has less than the books', says: [[3, 3]], bookedTo: 6, next: 3, looks: 3 },
  { name: 'others wait in the pool', says: [[7, 9]], bookedTo: 6, next: 9, looks: 2, isShared: true },
]

t.test(
  'at the start a number that nobody here knows of is supposed when it was said twice, and counts when it is said again',
  (t) =>
    Promise.all(
      starts.map(async ({ name, says, bookedTo = -1, next, looks, isShared = false }) => {
        let looked = 0
        const countOf = async (block: string) => {
          const [mined, pooled] = says[Math.min(looked, says.length - 1)]!
          if (block === 'latest') return mined
          looked++
          return pooled
        }
        const queue = createNonceQueue(() => watch.firstFree())
        const watch = createKeyWatch({
          ...{ network: 'eip155:84532', address: '0x', log, queue, countOf, sharedKeyMs: 60_000 },
          isOwn: () => false,
          openInStore: async () => new Map(),
        })
        watch.begin(async () => new Set(Array.from({ length: bookedTo + 1 }, (_, nonce) => nonce)))
        await watch.look()
        t.match([looked, watch.isShared, queue.next ?? 0], [looks, isShared, next], name)
      }),
    ),
)

t.test(
  'where no node answers the look at the start, the first number waits until one was said twice',
  async (t) => {
    let isAway = true
    let asked = 0
    const countOf = async () => {
      if (isAway) throw new Error('away')
      return asked++ < 2 ? 37 : 7
    }
    const queue = createNonceQueue(() => watch.firstFree())
    const watch = createKeyWatch({
      ...{ network: 'eip155:84532', address: '0x', log, queue, countOf, sharedKeyMs: 60_000 },
      isOwn: () => false,
      openInStore: async () => new Map(),
    })
    watch.begin()
    await watch.look()
    await t.rejects(queue.take())
    isAway = false
    t.equal(await queue.take(), 7)
  },
)

/** A key of which the books know 7 numbers, at the start of a watch of it. */
function starting(says: (block: string) => number, sharedKeyMs = 60_000) {
  const countOf = async (block: string) => says(block)
  const queue: NonceQueue = createNonceQueue(() => watch.firstFree())
  const watch: KeyWatch = createKeyWatch({
    ...{ network: 'eip155:84532', address: '0x', log, queue, countOf, sharedKeyMs },
    isOwn: () => false,
    openInStore: async () => new Map(),
  })
  watch.begin(async () => new Set([5, 6]))
  return { watch, queue }
}

t.test('what waits in the pool at the start, and is dropped, is taken back', async (t) => {
  for (const dropped of ['before anybody else is seen', 'after that']) {
    let pooled = 37
    const isSoon = dropped !== 'after that'
    const { watch, queue } = starting((block) => (block === 'latest' ? 7 : pooled), isSoon ? 60_000 : 500)
    await watch.look()
    t.match([watch.isShared, queue.next, queue.isSupposing], [true, 37, true])
    for (let look = 0; look < 2 && !isSoon; look++) {
      await sleep(510)
      await watch.look()
      t.match([watch.isShared, queue.next, queue.isSupposing], [true, 37, true])
    }
    pooled = 7
    await sleep(isSoon ? 2_100 : 800)
    await watch.look()
    t.match([watch.isShared, queue.isSupposing], [false, false], dropped)
    t.equal(await queue.take(), 7, dropped)
  }
})

t.test('what waits in the pool at the start, and is mined, keeps nobody for longer', async (t) => {
  let mined = 7
  const { watch, queue } = starting((block) => (block === 'latest' ? mined : 9))
  await watch.look()
  t.match([watch.isShared, queue.next], [true, 9])
  mined = 9
  await sleep(2_100)
  await watch.look()
  t.match([watch.isShared, queue.next, queue.isSupposing], [false, 9, false])
})

t.test('where nobody looks, the first number waits until what was said twice is said again', async (t) => {
  let asked = 0
  const { queue } = starting(() => (asked++ < 4 ? 37 : 7), 0)
  t.equal(await queue.take(), 7)
})
