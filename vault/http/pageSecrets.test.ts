import t from 'tap'
import { startVault } from '../testing/startVault.ts'

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

  const asked = await agent.call('POST', '/v1/vault/write', { scope, value: 'another' }, { prefer: 'wait=0' })
  const path = `/approvals/${asked.body.approval_id}`
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
    const answer = await asPage(method, route, body)
    t.equal(answer.status, 200, `${method} ${route}`)
    t.notMatch(JSON.stringify(answer.body), new RegExp(secret))
  }
})
