import t from 'tap'
import { watchedKey } from './keyWatch.fixture.ts'

/** A watch of a key of which the books know 7 numbers. */
function watching(countOf: (block: string) => Promise<number>) {
  const { watch, queue } = watchedKey({ countOf })
  const begin = () => watch.begin(async () => ({ numbers: new Set([5, 6]), isWhole: false }))
  begin()
  return { watch, queue, begin }
}

t.test('a process that takes the key again waits for nobody whom it has seen before', async (t) => {
  let pooled = 9
  const { watch, queue, begin } = watching(async (block) => (block === 'latest' ? 7 : pooled))
  await watch.look()
  t.equal(watch.isShared, true)
  pooled = 7
  begin()
  t.equal(watch.isShared, false)
  await watch.look()
  t.match([watch.isShared, queue.next], [false, 7])
})

t.test(
  'what a look has heard before the key is taken again says nothing of who signs after that',
  async (t) => {
    let says = 7
    let answer = () => {}
    const { watch, queue, begin } = watching(async () => {
      const said = says
      // The one that the look asks last, of three.
      if (said > 7 && ++asked === 3) await new Promise<void>((resolve) => (answer = resolve))
      return said
    })
    let asked = 0
    await watch.look()
    await queue.take()
    says = 37
    queue.recheck()
    const taking = queue.take()
    while (asked < 3) await new Promise(setImmediate)
    begin()
    answer()
    await taking
    t.match([watch.isShared, queue.isSupposing], [false, false])
  },
)
