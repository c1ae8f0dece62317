import { globSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { silentLog } from '../../core/ports/log.ts'
import { readCorpus } from '../../test/helpers/corpora.ts'
import { talk } from '../../test/helpers/rawHttp.ts'
import { startVault } from '../../test/helpers/vault/startVault.ts'
import { buildVaultPage } from '../../web/build.ts'
import { startVaultServer } from '../http/server.ts'
import { createMcpMount } from '../mcp/httpMount.ts'
import { createOwnerPage } from './ownerPage.ts'

await buildVaultPage()
const folder = join(import.meta.dirname, 'dist')
const files = readdirSync(folder).filter((name) => !name.startsWith('.'))
const start = (t: Test) => startVault(t, { mounts: [createOwnerPage()] })
const pathOf = (file: string) => `/owner/${file === 'index.html' ? '' : file}`

t.test('every file of the page is served to anybody on this machine, as it is on disk', async (t) => {
  const vault = await start(t)
  t.ok(files.includes('main.js'))
  const types = new Map(
    Object.entries({
      html: 'text/html',
      css: 'text/css',
      js: 'text/javascript',
      svg: 'image/svg+xml',
      png: 'image/png',
      webmanifest: 'application/manifest+json',
    }),
  )
  for (const file of files) {
    const answer = await fetch(`${vault.url}${pathOf(file)}`)
    t.equal(answer.status, 200, file)
    t.ok(answer.headers.get('content-type')?.startsWith(types.get(file.split('.').at(-1)!)!), file)
    t.ok(Buffer.from(await answer.arrayBuffer()).equals(readFileSync(join(folder, file))), file)
    const head = await fetch(`${vault.url}${pathOf(file)}`, { method: 'HEAD' })
    t.strictSame([head.status, (await head.text()).length], [200, 0])
  }
})

t.test(
  'whatever is asked of the page, the answer tells a browser to give nothing to anybody else',
  async (t) => {
    const vault = await start(t)
    for (const path of [...files.map(pathOf), '/owner']) {
      const { headers } = await fetch(`${vault.url}${path}`, { redirect: 'manual' })
      const policy = headers.get('content-security-policy') ?? ''
      for (const part of [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "form-action 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
      ])
        t.ok(policy.split('; ').includes(part), `${path}: ${part}`)
      t.notMatch(policy, /unsafe|http:|\*/)
      t.match(Object.fromEntries(headers), {
        'x-frame-options': 'DENY',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
      })
      t.notOk([...headers.keys()].some((name) => name.startsWith('access-control') || name === 'set-cookie'))
    }
  },
)

t.test('the page is plain files: nothing inline, nothing from elsewhere, no markup made of text', (t) => {
  const html = readFileSync(join(folder, 'index.html'), 'utf8')
  t.notMatch(html, /\son[a-z]+=|\sstyle=|javascript:|<script(?![^>]*src=)|<style|https?:/i)
  t.notMatch(readFileSync(join(folder, 'page.css'), 'utf8'), /url\(|@import/)
  const code = readFileSync(join(folder, 'main.js'), 'utf8').replace(/\/\*[\s\S]*?\*\//g, '')
  const choices =
    /outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|\bimport\(|https?:\/\/(?!www\.w3\.org\/)/
  t.strictSame(code.match(choices)?.[0], undefined)
  const sources = globSync('app/**/*.ts', { cwd: import.meta.dirname })
  t.ok(sources.length > 20)
  for (const file of sources) {
    const text = readFileSync(join(import.meta.dirname, file), 'utf8')
    t.notMatch(text, /innerHTML|__html|\.style\b|style=/, file)
    t.notMatch(text, /localStorage\.setItem\((?!wish)/, `${file} keeps no secret for longer than its tab`)
  }
  t.end()
})

t.test('what is served can be read: the sources of the page and of what it uses, not minified', (t) => {
  const bundle = readFileSync(join(folder, 'main.js'), 'utf8')
  const lines = bundle.split('\n')
  t.ok(Math.max(...lines.map((line) => line.length)) < 1_000)
  for (const part of [
    '// vault/page/app/approvals/approvalCard.ts',
    '// web/components/button.ts',
    '// node_modules/preact/src/',
  ])
    t.ok(bundle.includes(part), part)
  t.end()
})

t.test('the service worker keeps every other file of the page, and nothing else', (t) => {
  const text = readFileSync(join(folder, 'sw.js'), 'utf8')
  const list = /const files = \[([^\]]*)\]/.exec(text)![1]!
  const kept = [...list.matchAll(/'([^']+)'/g)].map(([, name]) => (name === './' ? 'index.html' : name!))
  t.strictSame(kept.sort(), files.filter((file) => file !== 'sw.js').sort())
  t.end()
})

t.test('a page that is not there, or not whole, is told with the command that builds it', async (t) => {
  for (const there of [{}, { 'index.html': '', 'page.css': '' }, { 'main.js': '', 'page.css': '' }])
    t.throws(() => createOwnerPage(t.testdir(there)), { message: /Run: npm run web$/ })
  t.throws(() => createOwnerPage(join(t.testdir({}), 'nowhere')), { message: /Run: npm run web$/ })
})

t.test('a file that did not change is not sent again', async (t) => {
  const vault = await start(t)
  const first = await fetch(`${vault.url}/owner/main.js`)
  const etag = first.headers.get('etag')!
  const again = await fetch(`${vault.url}/owner/main.js`, { headers: { 'if-none-match': etag } })
  t.strictSame([again.status, await again.text()], [304, ''])
  const other = await fetch(`${vault.url}/owner/sw.js`, { headers: { 'if-none-match': etag } })
  t.equal(other.status, 200)
})

t.test('the address without its slash leads to the page', async (t) => {
  const vault = await start(t)
  const answer = await fetch(`${vault.url}/owner`, { redirect: 'manual' })
  t.strictSame([answer.status, answer.headers.get('location')], [308, '/owner/'])
  t.match(await (await fetch(`${vault.url}/owner`)).text(), /^<!doctype html>/)
})

t.test('nothing but reading is done at the page', async (t) => {
  const vault = await start(t)
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
    const answer = await vault.call(method, '/owner/')
    t.match([answer.status, answer.headers['allow']], [405, 'GET, HEAD'], method)
  }
})

t.test('no path leads out of the folder, however it is spelt', async (t) => {
  const vault = await start(t)
  const port = Number(new URL(vault.url).port)
  const segment = fc.oneof(
    fc.constantFrom(
      '..',
      '.',
      '%2e%2e',
      '%2E.',
      '..%2f',
      '..\\',
      '%5c..',
      '..;',
      '',
      'app',
      'main.js',
      'ownerPage.ts',
      '%00',
      'C:',
    ),
    fc.string({ unit: 'grapheme-ascii', maxLength: 8 }).map((text) => text.replace(/[\s#?]/g, '')),
  )
  const known = new Set(files.map(pathOf))
  const odd = (readCorpus('patt-traversal.txt') ?? []).filter((path) => /^[!-~]+$/.test(path))
  const paths = fc.oneof(
    fc.array(segment, { minLength: 1, maxLength: 6 }).map((parts) => `/owner/${parts.join('/')}`),
    ...(odd.length > 0 ? [fc.constantFrom(...odd).map((path) => `/owner/${path}`)] : []),
  )
  await fc.assert(
    fc.asyncProperty(paths, async (path) => {
      const { text } = await talk(
        port,
        `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`,
      )
      if (known.has(path.split('?')[0]!)) return text.startsWith('HTTP/1.1 200')
      return /^HTTP\/1\.1 4\d\d /.test(text) && !text.includes('import type') && !text.includes('root:')
    }),
    { numRuns: 300 },
  )
})

t.test('a page of another site or of a rebound name does not get the page either', async (t) => {
  const vault = await start(t)
  const { port } = new URL(vault.url)
  for (const headers of [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: `http://localhost:${Number(port) + 1}` },
    { referer: 'https://evil.example/' },
    { host: `evil.example:${port}` },
  ]) {
    const answer = await vault.call('GET', '/owner/', undefined, headers)
    t.match([answer.status, answer.body.error.code], [403, 'ORIGIN_FORBIDDEN'], JSON.stringify(headers))
  }
  // A link in a terminal, the address bar, and the page's own calls.
  for (const headers of [
    { 'sec-fetch-site': 'none' },
    { 'sec-fetch-site': 'same-origin', origin: vault.url },
    { 'sec-fetch-site': 'same-origin', referer: `${vault.url}/owner/` },
  ])
    t.equal((await fetch(`${vault.url}/owner/icon.svg`, { headers })).status, 200)
})

t.test("the owner's session opens nothing at /mcp", async (t) => {
  const vault = await start(t)
  const mcp = createMcpMount(vault.api, silentLog)
  const server = await startVaultServer(vault.api, silentLog, {
    host: '127.0.0.1',
    port: 0,
    mounts: [createOwnerPage(), mcp],
  })
  t.teardown(async () => {
    await mcp.close()
    await server.close()
  })
  const { token } = vault.api.createOwnerSession(vault.owner)
  const initialize = {
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2024-11-05', capabilities: {}, clientInfo: { name: 'x', version: '1' } },
  }
  const answer = await fetch(`http://127.0.0.1:${server.address.port}/mcp`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify(initialize),
  })
  t.match(answer.status, /^40[13]$/)
  t.equal(answer.headers.get('mcp-session-id'), null)
})
