import type { Test } from 'tap'
import type { Images } from '../../core/ports/store/images.ts'
import type { Stores } from '../../core/ports/store/stores.ts'
import { sampleKey, sampleStore, startMs } from './samples.ts'

/** What every implementation of the port Pictures keeps. */
export function imagesContract(
  t: Test,
  make: (t: Test) => Promise<{ images: Images; stores: Stores }>,
): void {
  async function twoStores(t: Test) {
    const under = await make(t)
    for (const id of ['s1', 's2']) await under.stores.create(sampleStore(id), null, sampleKey(`k-${id}`, id))
    const show = (storeId: string, name: string) =>
      under.images.set(storeId, picture(name), `https://pay.test/avatar/${name}.png`, startMs + 1)
    const isKept = async (name: string) => (await under.images.find(name)) !== undefined
    return { ...under, show, isKept }
  }

  t.test('a picture and the address of it are there together', async (t) => {
    const { images, stores, show } = await twoStores(t)
    t.equal(await images.find('aa'), undefined)
    await show('s1', 'aa')
    const { bytes, ...facts } = (await images.find('aa'))!
    t.strictSame(facts, { hash: 'aa', mediaType: 'image/png' })
    t.strictSame(Buffer.from(bytes), Buffer.from('\0aa'))
    t.match(await stores.find('s1'), {
      avatarUrl: 'https://pay.test/avatar/aa.png',
      updatedAtMs: startMs + 1,
    })
    await images
      .set('no-such-store', picture('zz'), 'https://pay.test/avatar/zz.png', startMs)
      .catch(() => {})
    t.equal(await images.find('zz'), undefined, 'no store, no picture')
  })

  t.test('a picture is kept as long as a store shows it, and no longer', async (t) => {
    const { stores, show, isKept } = await twoStores(t)
    await show('s1', 'aa')
    await show('s2', 'aa')
    await show('s1', 'bb')
    t.same([await isKept('aa'), await isKept('bb')], [true, true])
    await stores.update('s2', { bio: 'new', avatarUrl: 'https://pay.test/avatar/aa.png' }, startMs)
    t.equal(await isKept('aa'), true, 'sent back as it was')
    await stores.update('s2', { avatarUrl: '' }, startMs)
    t.equal(await isKept('aa'), false)
    await show('s1', 'bb')
    t.equal(await isKept('bb'), true, 'the same again')
    await stores.update('s1', { username: 'other' }, startMs)
    t.equal(await isKept('bb'), true)
    await stores.update('s1', { avatarUrl: 'https://elsewhere.test/a.png' }, startMs)
    t.equal(await isKept('bb'), false)
  })

  t.test('where else a store is stays as it was set', async (t) => {
    const { stores } = await twoStores(t)
    t.strictSame((await stores.find('s1'))!.socials, [])
    const socials = [{ type: 'x', url: 'https://x.com/a', displayOrder: 3, isVisible: false }] as const
    t.strictSame((await stores.update('s1', { socials }, startMs))!.socials, socials)
    await stores.update('s1', { bio: 'b' }, startMs)
    t.strictSame((await stores.byUsername('s1'))!.socials, socials)
    t.strictSame((await stores.update('s1', { socials: [] }, startMs))!.socials, [])
  })
}

const picture = (hash: string) => ({ hash, mediaType: 'image/png', bytes: Buffer.from(`\0${hash}`) })
