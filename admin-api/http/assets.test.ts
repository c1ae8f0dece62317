import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { webManifest } from '../../web/render/assets.ts'

t.test('what a page names is there, for ever, in the form that the client takes', async (t) => {
  const f = await startAdmin(t)
  const { text } = await f.call('GET', '/')
  const named = [...text.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, path = '']) => path)
  t.ok(named.some((path) => path.endsWith('.js')) && named.some((path) => path.endsWith('.css')))
  for (const url of named) {
    const get = (coding: string) =>
      f.admin.inject({ url, headers: { 'accept-encoding': coding }, remoteAddress: '203.0.113.1' })
    const plain = await get('identity')
    t.equal(plain.statusCode, 200, url)
    t.match(plain.headers['cache-control'], /immutable/)
    t.equal(plain.headers['x-content-type-options'], 'nosniff')
    t.ok(gunzipSync((await get('gzip, deflate')).rawPayload).equals(plain.rawPayload))
    t.ok(brotliDecompressSync((await get('gzip, br;q=0.9')).rawPayload).equals(plain.rawPayload))
    t.equal((await get('br;q=0, gzip;q=0')).headers['content-encoding'], undefined)
  }
})

t.test('nothing else is served, whatever the name', async (t) => {
  const f = await startAdmin(t)
  for (const name of [
    'manifest.json',
    '..%2f..%2fpackage.json',
    'x',
    '%00',
    '__proto__',
    webManifest().icon.slice(1),
  ]) {
    const { status } = await f.call('GET', `/assets/${name}`)
    t.equal(status, 404, name)
  }
})
