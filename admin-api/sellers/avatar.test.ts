import t, { type Test } from 'tap'
import { images } from '../../test/helpers/admin-api/images.ts'
import { publicUrl, startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

async function seller(t: Test) {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const set = (avatarUrl: unknown) => f.call('POST', '/api/v1/avatar', { key, body: { avatarUrl } })
  /** The form that a browser would send. */
  async function send(form: FormData, headers: Record<string, string> = {}) {
    const request = new Request('http://localhost', { method: 'POST', body: form })
    const response = await f.admin.inject({
      method: 'POST',
      url: '/api/v1/avatar',
      headers: {
        'content-type': request.headers.get('content-type')!,
        authorization: `Bearer ${key}`,
        ...headers,
      },
      payload: Buffer.from(await request.arrayBuffer()),
    })
    return { status: response.statusCode, body: response.json() }
  }
  const upload = (bytes: Buffer, name = 'me.png', field = 'file') => {
    const form = new FormData()
    form.set(field, new File([new Uint8Array(bytes)], name, { type: 'text/html' }))
    return send(form)
  }
  const shown = async () => (await f.call('GET', `/api/store/${username}`)).body.profile.avatarUrl
  const get = (address: string, headers = {}) =>
    f.admin.inject({ url: address.replace(publicUrl, ''), headers })
  return { f, key, set, send, upload, shown, get }
}

t.test('a picture is shown from here as what it is, whatever it was called', async (t) => {
  const { upload, shown, get } = await seller(t)
  const types = { png: 'png', jpeg: 'jpg', webp: 'webp', gif: 'gif' } as const
  for (const [format, extension] of Object.entries(types)) {
    const { status, body } = await upload(images[format as keyof typeof images], 'page.html')
    t.equal(status, 200)
    const { avatarUrl } = body.data
    t.match(avatarUrl, new RegExp(`^${publicUrl}/avatar/[0-9a-f]{64}\\.${extension}$`))
    t.equal(await shown(), avatarUrl)
    const image = await get(avatarUrl)
    t.match(image.headers, {
      ...{ 'content-type': `image/${format}`, 'x-content-type-options': 'nosniff' },
      ...{ 'content-security-policy': "default-src 'none'; sandbox" },
      'cache-control': 'public, max-age=31536000, immutable',
    })
    t.strictSame(image.rawPayload, images[format as keyof typeof images])
    const etag = String(image.headers.etag)
    t.equal((await get(avatarUrl, { 'if-none-match': `"x", W/${etag}` })).statusCode, 304)
    t.equal((await get(avatarUrl.replace(/\w+$/, 'html'))).statusCode, 404, 'under no other name')
  }
})

t.test('a picture that nobody shows any more is gone', async (t) => {
  const { f, key, set, upload, shown, get } = await seller(t)
  const first = (await upload(images.png)).body.data.avatarUrl
  await upload(images.gif)
  t.equal((await get(first)).statusCode, 404)
  const second = await shown()
  const profile = (await f.call('GET', '/api/v1/profile', { key })).body
  await f.call('PATCH', '/api/v1/profile', { key, body: { ...profile, bio: 'new' } })
  t.equal((await get(second)).statusCode, 200, 'sent back with the profile')
  t.same((await set(null)).body, { success: true, data: { avatarUrl: '' } })
  t.equal((await get(second)).statusCode, 404)
  t.equal(await shown(), '')
})

t.test('an address elsewhere has to be https; the own one may be sent back', async (t) => {
  const { f, key, set, shown } = await seller(t)
  t.equal((await set('https://example.com/me.png')).status, 200)
  t.equal(await shown(), 'https://example.com/me.png')
  for (const bad of [
    'http://example.com/me.png',
    'javascript:alert(1)',
    'https://a b',
    'data:image/png,x',
    7,
  ])
    t.match(await set(bad), { status: 400, body: { error: { code: 'VALIDATION_ERROR' } } }, `${bad}`)
  t.match((await set('https://example.com/‮gnp')).body.error.message, /U\+202E/)
  await f.call('PATCH', '/api/v1/profile', { key, body: { avatarUrl: 'http://example.com/old.png' } })
  t.equal((await set('http://example.com/old.png')).status, 200)
})

t.test('forms without one picture in the field file say what was expected', async (t) => {
  const { f, key, send, upload } = await seller(t)
  t.match((await upload(Buffer.from('<svg/>'))).body.error, {
    message: /file: Expected a PNG, JPEG, WebP or GIF/,
  })
  t.match((await upload(images.png, 'a', 'picture')).body.error, { message: /field file, got picture/ })
  const form = new FormData()
  form.set('file', 'text')
  t.match((await send(form)).body.error, { code: 'VALIDATION_ERROR', message: /got none/ })
  const two = new FormData()
  for (const name of ['a', 'b']) two.append('file', new File([new Uint8Array(images.png)], name))
  t.match((await send(two)).body.error, { message: /got file,file/ })
  t.match(await send(two, { 'content-type': 'multipart/form-data' }), {
    status: 400,
    body: { error: { message: /form cannot be parsed/ } },
  })
  const plain = await f.call('POST', '/api/v1/avatar', {
    ...{ key, body: 'x' },
    headers: { 'content-type': 'image/png' },
  })
  t.equal(plain.body.error.code, 'UNSUPPORTED_MEDIA_TYPE')
  const elsewhere = await f.call('PATCH', '/api/v1/profile', {
    ...{ key, body: '--x--' },
    headers: { 'content-type': 'multipart/form-data; boundary=x' },
  })
  t.equal(elsewhere.body.error.code, 'UNSUPPORTED_MEDIA_TYPE', 'no other route reads forms')
})

t.test('a megabyte is let through, and not a byte more', async (t) => {
  const { upload } = await seller(t)
  const padded = (bytes: number) => Buffer.concat([images.gif, Buffer.alloc(bytes - images.gif.length)])
  t.equal((await upload(padded(1_048_576))).status, 200)
  t.match(await upload(padded(1_048_577)), { status: 413, body: { error: { code: 'PAYLOAD_TOO_LARGE' } } })
  t.equal((await upload(padded(2_000_000))).status, 413)
})

t.test('twenty pictures an hour are enough', async (t) => {
  const { f, upload } = await seller(t)
  for (let i = 0; i < 20; i++) t.equal((await upload(images.gif)).status, 200)
  t.match(await upload(images.gif), {
    status: 429,
    body: { error: { message: /image at most 20 times an hour/ } },
  })
  f.clock.nowMs += 3_600_001
  t.equal((await upload(images.gif)).status, 200)
})

t.test('a picture needs a key, before anything is read', async (t) => {
  const f = await startAdmin(t)
  const { status, body } = await f.call('POST', '/api/v1/avatar', {
    body: 'x'.repeat(1_000_000),
    headers: { 'content-type': 'multipart/form-data; boundary=x' },
  })
  t.match({ status, code: body.error.code }, { status: 401, code: 'UNAUTHORIZED' })
  for (const name of ['x.png', `${'a'.repeat(64)}.png`, `${'a'.repeat(64)}.svg`, '..%2f..%2fetc%2fpasswd'])
    t.equal((await f.call('GET', `/avatar/${name}`)).status, 404)
})
