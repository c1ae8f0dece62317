import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { silentLog } from '../../core/ports/log.ts'
import { call } from '../../test/helpers/vault/remote/call.ts'
import { startVault } from '../../test/helpers/vault/startVault.ts'
import { startLocalAgents } from './localAgents.ts'

async function start(t: Test, agent: string | undefined) {
  const vault = await startVault(t)
  const named = await vault.agent('helper', ['wallet.base', 'auto:write:custom.*', 'custom.*'])
  const other = await vault.agent('other', [])
  const local = await startLocalAgents(vault.api, silentLog, { host: '127.0.0.1', port: 0, agent })
  t.teardown(() => local.close())
  const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })
  return { vault, named, other, local, bearer }
}

t.test(
  'programs of this machine call without a token and without a relay, as the agent that the owner named',
  async (t) => {
    const { vault, other, local, bearer } = await start(t, 'helper')
    const capabilities = await call(local.url, '/v1/capabilities')
    t.match(capabilities.json, { name: 'tollgate-proxy', mode: 'local', local_url: local.url })
    t.equal((await call(local.url, '/health')).status, 200)
    const { status, json } = await call(local.url, '/address/base')
    t.strictSame([status, json.chain], [200, 'base'])
    const { assets } = (await call(local.url, '/v1/vault/assets')).json
    t.ok(assets.some(({ id, decimals }: { id: string; decimals: number }) => id !== '' && decimals === 6))
    const body = { scope: 'custom.note', value: 'hi' }
    t.equal((await call(local.url, '/v1/vault/write', { body })).status, 200)
    const { body: log } = await vault.asOwner('GET', '/v1/vault/activity?agent=helper&action=WRITE')
    t.equal(log.events.length, 1)
    t.equal(
      (await call(local.url, '/address/base', bearer(other.token))).status,
      403,
      'who shows a token is that agent',
    )
    t.equal((await call(local.url, '/address/base', bearer(`vat_${'A'.repeat(43)}`))).status, 401)

    const { token } = (await vault.asOwner('POST', '/v1/vault/owner/sessions', {})).body
    t.equal(
      (await call(local.url, '/v1/vault/scopes', bearer(token))).status,
      401,
      'the owner is nobody here',
    )
    for (const path of ['unlock', 'lock', 'agents', 'owner/sessions'])
      t.ok([403, 404].includes((await call(local.url, `/v1/vault/${path}`, { body: {} })).status), path)
    for (const headers of [
      { origin: 'https://evil.example' },
      { host: 'evil.example' },
      { 'sec-fetch-site': 'cross-site' },
    ])
      t.equal((await call(local.url, '/address/base', { headers })).status, 403)

    await vault.api.agents.revoke('helper', vault.owner)
    t.equal((await call(local.url, '/address/base')).status, 401)
  },
)

t.test('where a token is required, nobody without one is served, and capabilities stay open', async (t) => {
  const { named, local, bearer } = await start(t, undefined)
  t.equal((await call(local.url, '/address/base')).status, 401)
  t.equal((await call(local.url, '/address/base', bearer(named.token))).status, 200)
  t.equal((await call(local.url, '/v1/capabilities')).json.mode, 'local')
})

t.test(
  'an agent that waits with all it may holds back nobody else, and itself no longer than it stays',
  async (t) => {
    const { vault, local, bearer } = await start(t, undefined)
    const [busy, calm] = await Promise.all([
      vault.agent('busy', ['ask:identity.name']),
      vault.agent('calm', ['wallet.base']),
    ])
    const gone = new AbortController()
    const init = {
      method: 'POST',
      signal: gone.signal,
      headers: { ...bearer(busy.token).headers, 'content-type': 'application/json', prefer: 'wait=120' },
      body: JSON.stringify({ scope: 'identity.name' }),
    }
    const waiting = Array.from({ length: 64 }, () =>
      fetch(`${local.url}/v1/vault/read`, init).catch(() => undefined),
    )
    const statusOf = async ({ token }: { token: string }, path: string) =>
      (await call(local.url, path, bearer(token))).status
    const until = async (wanted: number) => {
      while ((await statusOf(busy, '/v1/vault/scopes')) !== wanted) await wait(10)
    }
    await until(429)
    t.equal(await statusOf(calm, '/address/base'), 200)
    t.equal((await call(local.url, '/v1/capabilities')).status, 200)
    gone.abort()
    await Promise.all(waiting)
    await until(200)
  },
)

t.test(
  'what could be read in two ways is refused: other bytes than UTF-8, a key that no header keeps',
  async (t) => {
    const { vault, local } = await start(t, 'helper')
    const scope = 'custom.note'
    const notUtf8 = Buffer.from(JSON.stringify({ scope, value: 'caf\u00e9' }), 'latin1')
    t.match(await call(local.url, '/v1/vault/write', { body: notUtf8 }), {
      status: 400,
      json: { error: { code: 'VALIDATION_ERROR', message: /UTF-8/ } },
    })
    for (const key of ['caf\u00e9', 'k'.repeat(1_025), 'a b', ''])
      t.match(
        await call(local.url, '/v1/vault/write', {
          body: { scope, value: 'hi' },
          headers: { 'idempotency-key': key },
        }),
        { status: 400, json: { error: { code: 'VALIDATION_ERROR', message: /Idempotency-Key/ } } },
        key.slice(0, 4),
      )
    t.equal((await vault.asOwner('POST', '/v1/vault/read', { scope })).status, 404, 'nothing was stored')
  },
)

t.test('a locked vault says so', async (t) => {
  const { vault, local } = await start(t, 'helper')
  await vault.asOwner('POST', '/v1/vault/lock', {})
  t.equal((await call(local.url, '/address/base')).status, 423)
})
