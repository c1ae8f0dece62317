import t from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

t.test('a store shows its profile and its public links, nothing else, without an envelope', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const url = await f.seller()
  const create = (body: object) => f.call('POST', '/api/v1/links', { key, body: { url, ...body } })
  const shown = await create({ title: 'Shown', price: '0.10', isPublic: true })
  await create({ title: 'Unlisted' })
  await create({ title: 'Secret', isStealth: true })
  const gone = await create({ title: 'Gone', isPublic: true })
  await f.call('DELETE', `/api/v1/links/${gone.body.data.id}`, { key })

  const { status, body, headers } = await f.call('GET', `/api/store/${username}`)
  t.equal(status, 200)
  t.same(body, {
    profile: { username, displayName: username, bio: '', avatarUrl: '' },
    links: [
      {
        id: shown.body.data.id,
        title: 'Shown',
        slug: 'shown',
        price: '0.10',
        currency: 'USDC',
        linkType: 'api',
      },
    ],
    socials: [],
  })
  t.equal(headers['access-control-allow-origin'], '*')
})

t.test('the links of a store are read page by page, and the document keeps its shape', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const url = await f.seller()
  for (const title of ['One', 'Two', 'Three']) {
    await f.call('POST', '/api/v1/links', { key, body: { url, title, isPublic: true } })
    f.clock.nowMs += 1
  }
  const titles: string[] = []
  let path: string | undefined = `/api/store/${username}?limit=2`
  for (let pages = 0; path !== undefined; pages++) {
    t.ok(pages < 2)
    const { status, body, headers } = await f.call('GET', path)
    t.equal(status, 200)
    t.strictSame(Object.keys(body), ['profile', 'links', 'socials'])
    titles.push(...body.links.map(({ title }: { title: string }) => title))
    path =
      headers['link'] === undefined
        ? undefined
        : new URL(/<(.+)>; rel="next"/.exec(`${headers['link']}`)![1]!).pathname +
          new URL(/<(.+)>/.exec(`${headers['link']}`)![1]!).search
  }
  t.strictSame(titles, ['Three', 'Two', 'One'])
  t.equal((await f.call('GET', `/api/store/${username}`)).headers['link'], undefined)
  for (const query of ['limit=0', 'limit=1001', 'cursor=none'])
    t.equal(
      (await f.call('GET', `/api/store/${username}?${query}`)).body.error.code,
      'VALIDATION_ERROR',
      query,
    )
})

t.test('an unknown store is a 404 in the envelope, whatever the name looks like', async (t) => {
  const f = await startAdmin(t)
  for (const name of [
    'nobody',
    'UPPER',
    'a',
    'x'.repeat(400),
    '%F0%9F%A6%86',
    'a%00b',
    '__proto__',
    'constructor',
  ]) {
    const { status, body } = await f.call('GET', `/api/store/${name}`)
    t.equal(status, 404, name)
    t.equal(body.error.code, 'NOT_FOUND')
  }
})

t.test(
  "a store's page and the start page stand alone: escaped, own scripts by nonce, no other host",
  async (t) => {
    const f = await startAdmin(t)
    const { key, username } = await f.store()
    const hostile = '<script>alert("1")</script>'
    await f.call('PATCH', '/api/v1/profile', { key, body: { displayName: hostile, bio: `"'&${hostile}` } })
    const url = await f.seller()
    await f.call('POST', '/api/v1/links', { key, body: { url, title: hostile, isPublic: true } })

    for (const path of ['/', `/${username}`]) {
      const { status, text, headers } = await f.call('GET', path)
      t.equal(status, 200)
      t.match(headers['content-type'], /^text\/html/)
      const csp = String(headers['content-security-policy'])
      const nonce = /script-src 'nonce-([\w-]{43})';/.exec(csp)?.[1]
      t.ok(nonce)
      t.match(csp, /default-src 'none'/)
      t.match(csp, /style-src 'self';/)
      t.match(csp, /frame-ancestors 'none'/)
      t.match(csp, /require-trusted-types-for 'script'; trusted-types 'none'/)
      for (const [script] of text.matchAll(/<script[^>]*>/g))
        t.ok(script.includes(` nonce="${nonce}"`), script)
      t.notOk(text.includes(hostile))
      // Its own address stands in it for search engines.
      t.notMatch(text, /(?:src|href)="https?:(?!\/\/pay\.example\/)/)
      t.notMatch(text, / style="/)
    }
    t.equal((await f.call('GET', '/nobody_here')).body.error.code, 'NOT_FOUND')
  },
)
