import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { type Log, silentLog } from '../../../../core/ports/log.ts'
import { watchedKey } from '../../../../test/helpers/chains/evm/settle/keyWatch.ts'
import type { KeyWatch } from './keyWatch.ts'

/** A watch at startup, of a key with two pending nonces that no process here used, and how often it reported another program. */
function doubting(newestBlock: () => Promise<number>, sharedKeyMs = 500) {
  const chain = { mined: 7, pooled: 9, notified: 0 }
  const log = { ...silentLog, error: () => void chain.notified++ } as Log
  const countOf = async (block: string) => (block === 'latest' ? chain.mined : chain.pooled)
  const { watch, queue } = watchedKey({ countOf, newestBlock, sharedKeyMs, log })
  watch.begin(async () => ({ nonces: new Set([5, 6]), isComplete: false }))
  return { watch, queue, chain }
}

/** Checks of a watch that is in doubt, each when it is due. */
const pollOften = async (watch: KeyWatch, count: number, pauseMs = 510) => {
  for (let look = 0; look < count; look++) {
    await watch.check()
    await sleep(pauseMs)
  }
}

t.test(
  'what waits in the pool at the start is nobody else’s before blocks have come without it',
  async (t) => {
    let requestCount = 0
    const saying = {
      'no new block': async () => 20,
      'a block that one of two nodes does not know yet': async () => 20 + (requestCount++ % 2),
    }
    await Promise.all(
      Object.entries(saying).map(async ([name, newestBlock]) => {
        const { watch, queue, chain } = doubting(newestBlock, 60_000)
        await pollOften(watch, 4, 2_010)
        t.match([queue.next, queue.hasSuspicion, chain.notified], [9, true, 0], name)
        chain.mined = 9
        await watch.check()
        t.match([watch.isShared, queue.next, queue.hasSuspicion, chain.notified], [false, 9, false, 0], name)
      }),
    )
  },
)

t.test('it is somebody else’s where some blocks have come without it', async (t) => {
  let block = 20
  const { watch, chain } = doubting(async () => block++)
  await pollOften(watch, 2)
  t.equal(chain.notified, 0)
  await pollOften(watch, 1)
  t.equal(chain.notified, 1)
})

t.test('it is somebody else’s after some time where no node says of a new block', async (t) => {
  const saying = [async () => 20, () => Promise.reject(new Error('away'))]
  await Promise.all(
    saying.map(async (newestBlock) => {
      const { watch, chain } = doubting(newestBlock)
      await pollOften(watch, 4)
      t.equal(chain.notified, 1)
    }),
  )
})
