import t from 'tap'
import { watchedKey } from '../../../../test/helpers/chains/evm/settle/keyWatch.ts'

/** A watch of a key for which the ledger has 7 nonces. */
function watching(countOf: (block: string) => Promise<number>) {
  const { watch, queue } = watchedKey({ countOf })
  const begin = () => watch.begin(async () => ({ nonces: new Set([5, 6]), isComplete: false }))
  begin()
  return { watch, queue, begin }
}

t.test('a process that takes the key again waits for nobody whom it has seen before', async (t) => {
  let pooled = 9
  const { watch, queue, begin } = watching(async (block) => (block === 'latest' ? 7 : pooled))
  await watch.check()
  t.equal(watch.isShared, true)
  pooled = 7
  begin()
  t.equal(watch.isShared, false)
  await watch.check()
  t.match([watch.isShared, queue.next], [false, 7])
})

t.test(
  'what a look has heard before the key is taken again says nothing of who signs after that',
  async (t) => {
    let says = 7
    let respond = () => {}
    const { watch, queue, begin } = watching(async () => {
      const result = says
      // The last of three requests of the check.
      if (result > 7 && ++requestCount === 3) await new Promise<void>((resolve) => (respond = resolve))
      return result
    })
    let requestCount = 0
    await watch.check()
    await queue.take()
    says = 37
    queue.recheck()
    const taking = queue.take()
    while (requestCount < 3) await new Promise(setImmediate)
    begin()
    respond()
    await taking
    t.match([watch.isShared, queue.hasSuspicion], [false, false])
  },
)
