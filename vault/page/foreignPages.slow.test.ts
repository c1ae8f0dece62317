// What a page of another site, open in the owner's browser, gets from a vault and from a proxy: nothing. Both are tested in
// their most permissive form: a vault that accepts requests without a token, and a proxy with its defaults.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { BrowserContext, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { linkOf, startPageVault } from '../../test/helpers/vault/page/openPage.ts'
import { pairedWorld } from '../../test/helpers/vault/remote/world.ts'

/** As after a DNS rebinding: the attacker's host name points to this machine. */
const browser = await startBrowser(t, ['--host-resolver-rules=MAP evil.example 127.0.0.1'])

/** The code of the attacker's page. */
const attack = readFileSync(join(import.meta.dirname, '../../test/helpers/vault/page/attack.js'), 'utf8')
const write = { scope: 'custom.note', value: 'harmed', agent_name: 'x' }
const routes = {
  write: { path: '/v1/vault/write', body: write },
  lock: { path: '/v1/vault/lock', body: {} },
  signIn: { path: '/v1/vault/owner/sign-in', body: { code: 'x' } },
  mcp: { path: '/mcp', body: { jsonrpc: '2.0', id: 1, method: 'initialize', params: {} } },
} as const

/** The attacker's server: an empty page, on a port of its own. */
async function startSite(t: Test): Promise<number> {
  const site = createServer((_req, res) =>
    res.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html>'),
  )
  site.listen(0, '127.0.0.1')
  await once(site, 'listening')
  t.teardown(() => {
    site.closeAllConnections()
    site.close()
  })
  return (site.address() as AddressInfo).port
}

interface Outcome {
  readonly read: readonly string[]
  /** Statuses of the target's responses, as the browser's own tools report them. */
  readonly statuses: readonly number[]
}

/** Opens the attacker's page and lets it try everything. */
async function visit(context: BrowserContext, page: Page, address: string, target: string): Promise<Outcome> {
  const statuses: number[] = []
  const note = (answer: { url(): string; status(): number }) => {
    if (answer.url().startsWith(target) && answer.url() !== address) statuses.push(answer.status())
  }
  context.on('response', note)
  await page.goto(address)
  const posts = Object.values(routes).map(({ path, body }) => ({ path, body }))
  const read: string[] = await page.evaluate(`${attack}; attack(${JSON.stringify({ target, posts })})`)
  // A separate window, which a page may open after a click and then navigate anywhere.
  const [popup] = await Promise.all([
    context.waitForEvent('page'),
    page.evaluate(`void window.open(${JSON.stringify(`${target}/owner/`)})`),
  ])
  await popup.waitForLoadState()
  const text = (await popup.textContent('body')) ?? ''
  if (!text.includes('ORIGIN_FORBIDDEN') && text !== '') read.push(`window: ${text.slice(0, 200)}`)
  await popup.close()
  context.off('response', note)
  return { read, statuses }
}

/** The origins of the attacker's page. */
const origins = (sitePort: number, targetPort: number) =>
  [
    ['another port of this machine', `http://127.0.0.1:${sitePort}/`, `http://127.0.0.1:${targetPort}`],
    ['another site', `http://evil.example:${sitePort}/`, `http://127.0.0.1:${targetPort}`],
    ['another name of loopback', `http://127.0.0.1:${sitePort}/`, `http://localhost:${targetPort}`],
    [
      'a name that was pointed here',
      `http://evil.example:${targetPort}/evil`,
      `http://evil.example:${targetPort}`,
    ],
  ] as const

/** A tab; where its address is the target's own, it loads what the host name pointed to before: the attacker's page. */
async function attackersTab(context: BrowserContext, address: string, sitePort: number): Promise<Page> {
  const page = await context.newPage()
  if (address.endsWith('/evil'))
    await page.route(address, (route) => route.continue({ url: `http://127.0.0.1:${sitePort}/` }))
  return page
}

if (browser !== undefined) {
  t.test('a foreign page gets nothing done at a vault, and reads nothing of it', async (t) => {
    const vault = await startPageVault(t, { tokenlessAgent: 'trusting' })
    await vault.agent('trusting', ['auto:write:custom.*', 'read:custom.*', 'wallet.*'])
    const context = await browser.newContext()
    t.teardown(() => context.close())
    // The owner is signed in in another tab.
    const owner = await context.newPage()
    await owner.goto(await linkOf(vault))
    await owner.getByText('Nothing to approve').waitFor()
    // Its service worker caches the page's files first: those responses would be mistaken for the attacker's.
    await owner.evaluate('navigator.serviceWorker.ready.then(() => undefined)')
    const log = async () => (await vault.asOwner('GET', '/v1/vault/activity?limit=500')).body.events.length
    const before = await log()

    const sitePort = await startSite(t)
    for (const [from, address, target] of origins(sitePort, Number(new URL(vault.url).port))) {
      const page = await attackersTab(context, address, sitePort)
      const { read, statuses } = await visit(context, page, address, target)
      t.strictSame(read, [], `${from} reads nothing`)
      t.ok(statuses.length >= 10, `${from} was answered ${statuses.length} times`)
      t.strictSame(
        statuses.filter((status) => status !== 403),
        [],
        `${from} was refused each time`,
      )
      t.equal(await log(), before, 'nothing is in the log')
      await page.close()
    }
    t.equal(vault.api.state().locked, false)
    t.match((await vault.call('POST', '/v1/vault/read', { scope: 'custom.note' })).body, {
      error: { code: 'NOT_FOUND' },
    })
    // The same request from a program succeeds: the pages were refused because they are pages.
    t.equal((await vault.call('POST', '/v1/vault/write', write)).status, 200)
    t.ok((await log()) > before)
    await owner.reload()
    await owner.getByText('Nothing to approve').waitFor()
  })

  t.test('a foreign page reaches nothing through a proxy', async (t) => {
    const { vault, proxy } = await pairedWorld(t)
    const context = await browser.newContext()
    t.teardown(() => context.close())
    const sitePort = await startSite(t)
    for (const [from, address, target] of origins(sitePort, proxy.port)) {
      const page = await attackersTab(context, address, sitePort)
      const { read, statuses } = await visit(context, page, address, target)
      t.strictSame(read, [], `${from} reads nothing`)
      t.ok(statuses.length >= 10, `${from} was answered ${statuses.length} times`)
      t.strictSame(
        statuses.filter((status) => status < 400),
        [],
        `${from} was refused each time`,
      )
      t.equal(vault.requests.length, 0, 'nothing came to the vault')
      await page.close()
    }
    const pendingApproval = await fetch(`${proxy.url}/v1/vault/write`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(write),
    })
    t.equal(pendingApproval.status, 200, 'the same request of a program comes through')
  })

  t.test('the owner’s credentials are worth nothing at a proxy, and the page is not there', async (t) => {
    const vault = await startPageVault(t)
    const { vault: remote, proxy } = await pairedWorld(t)
    const { token } = vault.api.createOwnerSession(vault.owner)
    for (const path of [
      '/owner/',
      '/owner/main.js',
      '/v1/vault/agents',
      '/v1/vault/owner/sign-in',
      '/v1/vault/events',
    ]) {
      const answer = await fetch(`${proxy.url}${path}`, { headers: { authorization: `Bearer ${token}` } })
      t.ok(answer.status >= 400, path)
    }
    t.equal(remote.requests.length, 0)
  })
}
