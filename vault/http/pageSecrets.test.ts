import t from 'tap'
import { startVault } from '../../test/helpers/vault/startVault.ts'
import { startRelay } from '../relay/startRelay.ts'

const secret = 'a-secret-of-the-shop'
const scope = 'credentials.api.shop'

t.test("a page's session can't read what is stored, by any route", async (t) => {
  const vault = await startVault(t)
  await vault.asOwner('POST', '/v1/vault/write', { scope, value: secret })
  await vault.asOwner('POST', '/v1/vault/write', { scope: 'custom.note', value: secret })
  const agent = await vault.agent('asker', [`ask:write:${scope}`])
  const { token } = (await vault.asOwner('POST', '/v1/vault/owner/sessions', {})).body
  const asPage = (method: string, path: string, body?: object) =>
    vault.call(method, `/v1/vault${path}`, body, { authorization: `Bearer ${token}` })

  for (const stored of [scope, 'custom.note', 'custom.missing'])
    t.match(await asPage('POST', '/read', { scope: stored }), {
      status: 403,
      body: { error: { code: 'OWNER_REQUIRED', message: /tollgate vault get/ } },
    })
  t.match(await asPage('POST', '/read', { scope: 'wallet.base' }), { status: 200, body: { value: /^0x/ } })
  t.match(await vault.asOwner('POST', '/v1/vault/read', { scope }), { status: 200, body: { value: secret } })

  const pendingApproval = await agent.call(
    'POST',
    '/v1/vault/write',
    { scope, value: 'another' },
    { prefer: 'wait=0' },
  )
  const path = `/approvals/${pendingApproval.body.approval_id}`
  t.match((await vault.asOwner('GET', `/v1/vault${path}`)).body.parts, [
    { text: secret },
    { text: 'another' },
  ])
  const { decision_hash } = (await asPage('GET', path)).body
  for (const [method, route, body] of [
    ['GET', path],
    ['GET', '/approvals'],
    ['GET', '/scopes'],
    ['GET', '/activity'],
    ['POST', `${path}/approve`, { decision_hash }],
    ['POST', '/write', { scope, value: 'third' }],
    ['POST', '/delete', { scope }],
  ] as const) {
    const response = await asPage(method, route, body)
    t.equal(response.status, 200, `${method} ${route}`)
    t.notMatch(JSON.stringify(response.body), new RegExp(secret))
  }
})

/** A vault with secrets, and the calls of a page session. */
async function startWithSecrets(t: Parameters<typeof startVault>[0], options = {}) {
  const vault = await startVault(t, options)
  for (const stored of [scope, 'custom.note'])
    await vault.asOwner('POST', '/v1/vault/write', { scope: stored, value: secret })
  await vault.asOwner('POST', '/v1/vault/write', { scope: 'identity.name', value: 'Ada' })
  const { token } = (await vault.asOwner('POST', '/v1/vault/owner/sessions', {})).body
  const asPage = (method: string, path: string, body?: object) =>
    vault.call(method, `/v1/vault${path}`, body ?? (method === 'GET' ? undefined : {}), {
      authorization: `Bearer ${token}`,
    })
  return { vault, asPage }
}

const refusedFor = (command: string) => ({
  status: 403,
  body: { error: { code: 'OWNER_REQUIRED', message: new RegExp(`: ${command.replaceAll('*', '\\*')}$`) } },
})
const noWait = { prefer: 'wait=0' }

t.test("a page's session lets no agent in that reads secrets without a question", async (t) => {
  const { vault, asPage } = await startWithSecrets(t)
  for (const line of ['custom.*', 'read:custom.note', 'auto:custom.*', 'auto:read:custom.a.*'])
    t.match(
      await asPage('POST', '/agents', { name: 'my own', scopes: ['wallet.base', line] }),
      refusedFor(
        `tollgate vault agents add 'my own' --scopes ${line.includes('*') ? `'wallet.base,${line}'` : `wallet.base,${line}`}`,
      ),
      line,
    )
  const scopes = ['identity.name', 'preferences.*', 'auto:write:custom.*', 'ask:custom.*', scope]
  t.equal((await asPage('POST', '/agents', { name: 'fine', scopes })).status, 201)

  await vault.agent('held', ['wallet.base', 'custom.note'])
  const change = (lines: readonly string[]) => asPage('PATCH', '/agents/held', { scopes: lines })
  for (const line of ['custom.*', 'read:custom.other', `read:${scope}`, 'ask:read:custom.other'])
    t.match(await change(['custom.note', line]), {
      status: 403,
      body: { error: { message: /tollgate vault agents change held --scopes '?custom\.note,/ } },
    })
  t.equal((await change(['custom.note', 'identity.*'])).status, 200, 'what it has stays')
  t.equal((await change(['ask:custom.note'])).status, 200, 'less is less')
  t.equal((await change(['read:custom.note'])).status, 403)
})

t.test("a page's session gets no agent into its hands that may read secrets", async (t) => {
  const relay = await startRelay({ host: '127.0.0.1', port: 0 })
  t.teardown(() => relay.close())
  const { vault, asPage } = await startWithSecrets(t, { relay: relay.url })
  await vault.agent('reader', [`read:${scope}`])
  t.match(await asPage('POST', '/agents/reader/rotate'), refusedFor('tollgate vault agents rotate reader'))
  const pairing = { service_id: 'vps-1', agent: 'reader' }
  t.match(
    await asPage('POST', '/pairings', pairing),
    refusedFor('tollgate vault pair new vps-1 --agent reader'),
  )
  const { id } = (await vault.asOwner('POST', '/v1/vault/pairings', pairing)).body
  t.match(await asPage('POST', `/pairings/${id}/confirm`), refusedFor(`tollgate vault pair confirm ${id}`))

  // Concurrent requests: none may be judged by what an earlier one is about to change.
  const [, , rotated] = await Promise.all([
    asPage('PATCH', '/agents/reader', { scopes: [] }),
    asPage('PATCH', '/agents/reader', { scopes: [`read:${scope}`] }),
    asPage('POST', '/agents/reader/rotate'),
  ])
  t.notOk(rotated.status === 200 && vault.api.registry.byName('reader')?.grants.length)
  await asPage('POST', '/agents/reader/revoke')
  t.type(vault.api.registry.byName('reader')?.revokedAt, 'string', 'to shut one out works everywhere')
})

t.test(
  'a question that hands out a secret is approved in the terminal, and the page can deny it',
  async (t) => {
    const { vault, asPage } = await startWithSecrets(t)
    const { body: own } = await asPage('POST', '/agents', {
      name: 'own',
      scopes: [`read:${scope}`, 'ask:custom.*', 'ask:identity.name'],
    })
    const read = (stored: string) =>
      vault.call(
        'POST',
        '/v1/vault/read',
        { scope: stored },
        { authorization: `Bearer ${own.token}`, ...noWait },
      )
    for (const stored of [scope, 'custom.note']) {
      const { approval_id: id } = (await read(stored)).body
      const { decision_hash, approve_command } = (await asPage('GET', `/approvals/${id}`)).body
      t.equal(approve_command, `tollgate vault approve ${id}`)
      t.match(
        await asPage('POST', `/approvals/${id}/approve`, { decision_hash }),
        refusedFor(approve_command),
      )
      t.equal((await read(stored)).status, 202)
      t.match(await vault.asOwner('GET', `/v1/vault/approvals/${id}`), { body: { approve_command: null } })
      if (stored === scope) {
        await vault.asOwner('POST', `/v1/vault/approvals/${id}/approve`, { decision_hash })
        t.match(await read(stored), { status: 200, body: { value: secret } })
      } else {
        t.match(await asPage('POST', `/approvals/${id}/deny`), { status: 200, body: { status: 'denied' } })
        t.match(await read(stored), { status: 403, body: { error: { code: 'APPROVAL_DENIED' } } })
      }
    }
    const { approval_id: id } = (await read('identity.name')).body
    const { decision_hash, approve_command } = (await asPage('GET', `/approvals/${id}`)).body
    t.equal(approve_command, null)
    t.equal((await asPage('POST', `/approvals/${id}/approve`, { decision_hash })).status, 200)
    t.strictSame((await read('identity.name')).body, { value: 'Ada' })
  },
)
