import t from 'tap'
import { imagesContract } from '../images.ts'
import { sampleKey, sampleStore, startMs } from '../samples.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('pictures in PostgreSQL', { skip }, async (t) => imagesContract(t, makePostgres))

t.test('a picture that a single store leaves while another takes it is there', { skip }, async (t) => {
  const here = await makePostgres(t)
  const there = await makePostgres(t, { schema: here.schema })
  const ids = ['s1', 's2', 's3']
  for (const id of ids) await here.stores.create(sampleStore(id), null, sampleKey(`k-${id}`, id))
  const show = ({ images }: typeof here, id: string, hash: string) =>
    images.set(
      id,
      { hash, mediaType: 'image/png', bytes: Buffer.from(hash) },
      `https://pay.test/avatar/${hash}.png`,
      startMs,
    )
  for (let round = 0; round < 25; round++) {
    // Each passes its picture on to the next one, and all at once.
    await Promise.all(
      ids.map((id, i) => show(i === 1 ? there : here, id, `hash-${(i + round) % ids.length}`)),
    )
    for (const id of ids) {
      const [, hash = ''] = /avatar\/(.*)\.png$/.exec((await here.stores.find(id))!.avatarUrl)!
      if ((await here.images.find(hash)) === undefined) t.fail(`${id} shows ${hash}, which is gone`)
    }
  }
  await Promise.all(ids.map((id) => here.stores.update(id, { avatarUrl: '' }, startMs)))
  for (const i of ids.keys()) t.equal(await here.images.find(`hash-${i}`), undefined)
})
