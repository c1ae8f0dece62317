import t, { type Test } from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

async function seller(t: Test) {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const set = (socials: unknown) => f.call('POST', '/api/v1/socials', { key, body: { socials } })
  const shown = async () => (await f.call('GET', `/api/store/${username}`)).body.socials
  return { f, key, set, shown }
}

t.test('pages stand in their order; a hidden one only its seller sees', async (t) => {
  const { f, key, set, shown } = await seller(t)
  const { body } = await set([
    { type: 'website', url: 'https://example.com', displayOrder: 5 },
    { type: 'x', url: 'https://x.com/me' },
    { type: 'github', url: 'https://GitHub.com/me', isVisible: false, displayOrder: 0 },
  ])
  const kept = [
    { type: 'github', url: 'https://github.com/me', displayOrder: 0, isVisible: false },
    { type: 'x', url: 'https://x.com/me', displayOrder: 1, isVisible: true },
    { type: 'website', url: 'https://example.com/', displayOrder: 5, isVisible: true },
  ]
  t.same(body, { success: true, data: { socials: kept } })
  t.same((await f.call('GET', '/api/v1/profile', { key })).body.socials, kept)
  t.same(await shown(), [
    { type: 'x', url: 'https://x.com/me' },
    { type: 'website', url: 'https://example.com/' },
  ])
  t.same((await set([])).body.data, { socials: [] })
  t.same(await shown(), [])
})

t.test('each type has its place, with all its spellings', async (t) => {
  const { set } = await seller(t)
  const good = {
    ...{ x: 'https://twitter.com/me', github: 'https://github.com/me', telegram: 'https://t.me/me' },
    ...{ web3_bio: 'https://web3.bio/me.eth', website: 'https://münchen.example/a?b=c' },
    ...{ youtube: 'https://www.youtube.com/@me', linkedin: 'https://de.linkedin.com/in/me' },
    ...{ discord: 'https://discord.gg/abc', facebook: 'https://m.facebook.com/me' },
    ...{ tiktok: 'https://www.tiktok.com/@me' },
  }
  const { status, body } = await set(Object.entries(good).map(([type, url]) => ({ type, url })))
  t.equal(status, 200)
  t.match(body.data.socials[4], { type: 'website', url: 'https://xn--mnchen-3ya.example/a?b=c' })
})

t.test('what is not there, or not a page, is refused by its place in the list', async (t) => {
  const { set, shown } = await seller(t)
  const bad: [string, string, RegExp][] = [
    ['x', 'https://x.com.evil.example/me', /a page at x\.com or twitter\.com, got "x\.com\.evil/],
    ['x', 'https://notx.com/me', /a page at x\.com/],
    ['github', 'https://github.com/', /your own page/],
    ['github', 'https://me:secret@github.com/me', /without a user/],
    ['github', 'https://github.com:8443/me', /without a user and a port/],
    ['website', 'https://127.0.0.1/', /public website/],
    ['website', 'https://[::1]/', /public website/],
    ['website', 'https://localhost/', /public website/],
    ['website', 'https://', /begins with https|full URL/],
    ['x', 'https:///x.com/me', /full URL/],
    ['website', 'http://example.com', /begins with https/],
    ['website', 'javascript:alert(1)', /begins with https/],
    ['website', 'https://example.com/‮', /U\+202E/],
    ['myspace', 'https://myspace.com/me', /Expected one of/],
  ]
  for (const [type, url, words] of bad) {
    const { status, body } = await set([
      { type: 'x', url: 'https://x.com/me' },
      { type, url },
    ])
    t.equal(status, 400, url)
    t.match(
      body.error,
      { code: 'VALIDATION_ERROR', message: words, details: [{ path: /^socials\[1\]\./ }] },
      url,
    )
    t.notMatch(body.error.message, /secret/)
  }
  t.equal((await set(Array(11).fill({ type: 'x', url: 'https://x.com/me' }))).status, 400)
  t.equal((await set('x')).status, 400)
  t.same(await shown(), [], 'nothing of it was kept')
})
