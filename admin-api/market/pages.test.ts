import t from 'tap'
import { type Fixture, startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

const asBrowser = { headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' } }

/** A store with a link of this kind. @returns its slug */
async function addLink(f: Fixture, key: string, more: object): Promise<string> {
  const url = await f.seller()
  const { body } = await f.call('POST', '/api/v1/links', {
    key,
    body: { url, title: 'T', isPublic: true, ...more },
  })
  if (body.success !== true) throw new Error(JSON.stringify(body))
  return body.data.slug
}

const see = async (f: Fixture, path: string) => f.call('GET', path, asBrowser)

t.test('what strangers may see stands on all three pages, with its price', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const slug = await addLink(f, key, {
    title: 'Weather',
    price: '0.10',
    tags: ['live'],
    description: 'Of a city.',
  })
  for (const path of ['/', `/${username}`, `/${username}/${slug}`]) {
    const { status, text, headers } = await see(f, path)
    t.equal(status, 200, path)
    t.match(headers['content-type'], /^text\/html/)
    for (const words of ['Weather', '0.10 <small>USDC', 'Of a city.']) t.match(text, words, path)
    // Programs get the same.
    t.equal((await f.call('GET', path)).text, text)
  }
})

t.test(
  'what is private, stealth, suspended or deleted is listed nowhere, and its page is as if it never was',
  async (t) => {
    const f = await startAdmin(t)
    const { key, username } = await f.store()
    const hidden = [
      await addLink(f, key, { title: 'Hidden one', isPublic: false }),
      await addLink(f, key, { title: 'Hidden two', isStealth: true }),
      await addLink(f, key, { title: 'Hidden three' }),
      await addLink(f, key, { title: 'Held four' }),
    ]
    const links = (await f.call('GET', '/api/v1/links', { key })).body.data.links
    const idOf = (title: string) => links.find((link: { title: string }) => link.title === title).id
    const { privateSlug } = links.find((link: { isStealth: boolean }) => link.isStealth)
    await f.call('DELETE', `/api/v1/links/${idOf('Hidden three')}`, { key })
    const suspension = {
      sinceMs: f.clock.nowMs,
      reason: 'It fails.',
      cooldownUntilMs: f.clock.nowMs,
      permanent: false,
    }
    await f.db.links.setSuspension(idOf('Held four'), suspension, f.clock.nowMs)
    for (const path of ['/', '/?q=hidden', '/?q=held', `/${username}`]) {
      t.notMatch((await see(f, path)).text, /Hidden|Held/, path)
    }
    const unknown = await see(f, `/${username}/nothing-here`)
    for (const slug of [...hidden.slice(0, 3), privateSlug]) {
      const response = await see(f, `/${username}/${slug}`)
      t.equal(response.status, 404)
      t.equal(response.text, unknown.text, 'word by word')
      t.equal(response.headers['cache-control'], unknown.headers['cache-control'])
    }
    const held = await see(f, `/${username}/${hidden[3]}`)
    t.match([held.status, held.text], [200, 'This link is suspended'])
    t.notMatch(held.text, 'It fails.')
    t.match(held.text, 'name="robots" content="noindex"')
  },
)

t.test('a store of many links lists them page by page, and says how many there are', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const url = await f.seller()
  for (let i = 0; i < 60; i++)
    await f.call('POST', '/api/v1/links', { key, body: { url, title: `No ${i}.`, isPublic: true } })
  const first = await see(f, `/${username}`)
  const second = await see(f, `/${username}?offset=50`)
  const titlesIn = ({ text }: { text: string }) => text.match(/No \d+\./g) ?? []
  t.strictSame([titlesIn(first).length, titlesIn(second).length], [50, 10])
  t.equal(new Set([first, second].flatMap(titlesIn)).size, 60, 'each once')
  for (const { text } of [first, second]) t.match(text, '60 links')
  t.match(first.text, `href="/${username}?offset=50"`)
  t.match(second.text, `href="/${username}"`)
  const beyond = await see(f, `/${username}?offset=99999999`)
  t.match([beyond.status, beyond.text], [200, '60 in total'])
  t.notMatch(beyond.text, 'no public links')
  t.equal((await see(f, `/${username}?offset=a`)).text, first.text)
})

t.test('an unknown address is a page to a browser and the envelope to a program', async (t) => {
  const f = await startAdmin(t)
  for (const path of [
    '/nobody_here',
    '/nobody_here/nothing',
    '/NOBODY',
    '/a/b',
    '/%00/%0a',
    '/__proto__/constructor',
  ]) {
    const page = await see(f, path)
    t.equal(page.status, 404, path)
    t.match(page.text, 'No page exists at this address')
    t.notMatch(page.text, path.slice(1))
    const { status, body } = await f.call('GET', path)
    t.match([status, body], [404, { success: false, error: { code: 'NOT_FOUND' } }])
  }
})

t.test('a former name of a store or a link leads to the present one', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const slug = await addLink(f, key, { slug: 'old-slug' })
  const { id } = (await f.call('GET', '/api/v1/links', { key })).body.data.links[0]
  await f.call('PATCH', `/api/v1/links/${id}`, { key, body: { slug: 'new-slug' } })
  await f.call('PATCH', '/api/v1/profile', { key, body: { username: 'new_name' } })
  for (const [from, to] of [
    [`/${username}`, '/new_name'],
    [`/${username}/${slug}`, '/new_name/new-slug'],
    [`/${username}/new-slug`, '/new_name/new-slug'],
  ]) {
    const { status, headers } = await see(f, from!)
    t.match([status, headers['location']], [307, to], `${from}`)
  }
})

t.test(
  'a page is kept for a minute, is not sent again to whoever has it, and its policy fits it',
  async (t) => {
    const f = await startAdmin(t)
    const { key, username } = await f.store()
    const slug = await addLink(f, key, { title: 'Before' })
    const path = `/${username}/${slug}`
    const first = await see(f, path)
    t.equal(first.headers['cache-control'], 'public, max-age=60')
    const headers = { ...asBrowser.headers, 'if-none-match': String(first.headers['etag']) }
    const again = await f.call('GET', path, { headers })
    t.match([again.status, again.text], [304, ''])
    // The nonces of a body that was kept have to be those of the policy that comes now.
    t.equal(again.headers['content-security-policy'], first.headers['content-security-policy'])
    const { id } = (await f.call('GET', '/api/v1/links', { key })).body.data.links[0]
    await f.call('PATCH', `/api/v1/links/${id}`, { key, body: { title: 'After' } })
    t.match((await see(f, path)).text, 'After', 'a change is seen at once')
    t.equal((await f.call('GET', path, { headers })).status, 200)
  },
)

t.test(
  'search, filters and order are those of the address; what is in no known form is left out',
  async (t) => {
    const f = await startAdmin(t)
    const { key } = await f.store()
    await addLink(f, key, { title: 'Cheap', price: '0.01', tags: ['x'] })
    await addLink(f, key, { title: 'Dear', price: '5' })
    await addLink(f, key, { title: 'Gratis', price: '0' })
    const shown = async (query: string) =>
      [...(await see(f, `/${query}`)).text.matchAll(/class="result-title"[^>]*>(\w+)</g)].map(
        ([, title]) => title,
      )
    t.strictSame(await shown('?sort=price_asc'), ['Gratis', 'Cheap', 'Dear'])
    t.strictSame(await shown('?q=chea'), ['Cheap'])
    t.strictSame(await shown('?price=free'), ['Gratis'])
    t.strictSame(await shown('?price=0.01&sort=price_desc'), ['Cheap', 'Gratis'])
    t.strictSame(await shown('?tag=x'), ['Cheap'])
    t.strictSame(await shown('?type=api&sort=price_asc'), ['Gratis', 'Cheap', 'Dear'])
    t.strictSame(await shown('?type=standard'), [])
    t.match((await see(f, '/')).text, '<option value="x"', 'tags are chosen from a list')
    t.strictSame(await shown('?network=base&sort=price_asc'), ['Cheap', 'Dear'])
    t.strictSame(await shown('?minRating=80'), [])
    t.strictSame(await shown('?offset=3'), [])
    for (const odd of [
      '?sort=x&price=-1&minRating=999&network=mars&offset=x',
      '?q=a&q=b',
      '?q=%ff%00',
      '?offset=1e99',
    ])
      t.equal((await see(f, `/${odd}`)).status, 200, odd)
  },
)

t.test('addresses and texts of sellers stand in no script, no style and no foreign policy', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const hostile = `"'></title></script><img src=x onerror=alert(1)>{{7*7}}\${7}`
  const properties = { [hostile]: { type: 'string', description: hostile, example: hostile } }
  const inputSchema = { type: 'object', properties }
  const slug = await addLink(f, key, {
    ...{ title: hostile, description: hostile, tags: ['b'], price: '1', inputSchema },
    outputExample: { [hostile]: hostile },
  })
  for (const path of [
    '/',
    `/?q=${encodeURIComponent(hostile)}`,
    `/?tag=${encodeURIComponent('<b>')}`,
    `/${username}/${slug}`,
  ]) {
    const { status, text, headers } = await see(f, path)
    t.equal(status, 200, path)
    t.notMatch(text, '<img src=x')
    t.notMatch(text, '<b>')
    t.equal(text.split('</head>')[0]!.match(/<\/title>/g)?.length, 1)
    t.equal(text.match(/<script/g)?.length, 1, 'the entry alone')
    t.match(headers['content-security-policy'], "script-src 'nonce-")
    t.notMatch(headers['content-security-policy'], 'unsafe')
  }
})
