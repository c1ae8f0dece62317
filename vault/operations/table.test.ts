import t, { type Test } from 'tap'
import { silentLog } from '../../core/ports/log.ts'
import { startVault } from '../../test/helpers/vault/startVault.ts'
import { isVaultError } from '../errors/error.ts'
import type { Caller } from '../host/caller.ts'
import { createDispatch } from '../http/dispatch.ts'
import { judgeRoute } from '../remote/remoteRequest.ts'
import { operations, type Route, remoteRoutes, routes } from './table.ts'

/** A second list, by paths: a row of the table with wrong callers contradicts it. */
const noCredential = /^\/(?:health|v1\/capabilities|v1\/vault\/(?:unlock|owner\/sign-in))$/
const ownersOnly =
  /^\/v1\/vault\/(?:agents|policies|pairings|owner|activity\/verify|budget\/give-back|approvals\/:id\/(?:approve|deny))(?:\/|$)/
const thisMachineOnly = /^\/(?:health|v1\/vault\/(?:lock|unlock|status))$/

/** Bodies that pass validation, so that only the host refuses them. */
const bodies: Readonly<Record<string, object>> = {
  'POST /v1/vault/agents': { name: 'new', scopes: [] },
  'POST /v1/vault/pairings': { service_id: 'vps', agent: 'a' },
  'PATCH /v1/vault/pairings/:id': { suspended: false },
  'POST /v1/vault/approvals/:id/approve': { decision_hash: 'ab' },
  'POST /v1/vault/owner/keys/derive': { family: 'evm', index: 3 },
  'POST /v1/vault/owner/keys/use': { id: 'key_1' },
  'POST /v1/vault/owner/keys/import': {
    password: 'x',
    family: 'evm',
    name: 'mine',
    private_key: `0x${'1'.repeat(64)}`,
  },
  'POST /v1/vault/owner/keys/export': { id: 'key_1', password: 'x' },
  'POST /v1/vault/owner/mnemonic/import': { password: 'x', mnemonic: 'abandon' },
  'POST /v1/vault/owner/mnemonic/export': { password: 'x' },
  'POST /v1/vault/owner/password': { password: 'x', new_password: 'y' },
  'POST /v1/vault/owner/backup': { file: '/nowhere/backup' },
}

const pathOf = ({ path }: Route) => path.replace(':chain', 'base').replace(/:\w+/, 'x1')
const nameOf = ({ method, path }: Route) => `${method} ${path}`
const isOwners = ({ path }: Route) => ownersOnly.test(path) && !noCredential.test(path)

const startCallers = async (t: Test) => {
  const vault = await startVault(t)
  const { id } = await vault.agent('a', ['identity.name'])
  const agent = vault.api.registry.get(id)!
  const dispatch = createDispatch(vault.api, silentLog)
  const codeOf = async (route: Route, caller: Caller, body?: string): Promise<string> => {
    const response = await dispatch({
      method: route.method,
      target: pathOf(route),
      headers: { 'content-type': 'application/json', prefer: 'wait=0' },
      body: route.method === 'GET' ? '' : (body ?? JSON.stringify(bodies[nameOf(route)] ?? {})),
      caller,
      requestId: 'test',
    })
    return (JSON.parse(response.body) as { error?: { code: string } }).error?.code ?? 'done'
  }
  return { vault, agent, codeOf }
}
const unread = 'no JSON'
const ways = ['direct', 'socket', 'relay', 'mcp'] as const

t.test('every operation refuses every caller who may not call it, before it reads the request', async (t) => {
  const { vault, agent, codeOf } = await startCallers(t)
  const before = JSON.stringify(await vault.api.activity({ limit: 500 }, vault.owner))
  for (const route of routes) {
    const name = nameOf(route)
    const isOpen = noCredential.test(route.path)
    t.equal(route.operation.who, isOpen ? 'anyone' : isOwners(route) ? 'owner' : 'agent', name)
    for (const via of ways) {
      if (!isOpen) t.equal(await codeOf(route, { kind: 'anyone', via }, unread), 'UNAUTHORIZED', name)
      if (!isOwners(route)) continue
      t.equal(await codeOf(route, { kind: 'agent', agent, via }, unread), 'OWNER_REQUIRED', `${name}, ${via}`)
      if (via === 'relay' || via === 'mcp')
        t.equal(await codeOf(route, { kind: 'owner', via }, unread), 'OWNER_REQUIRED', `${name}, ${via}`)
    }
  }
  t.equal(JSON.stringify(await vault.api.activity({ limit: 500 }, vault.owner)), before, 'nothing was done')
})

t.test('an agent is let through to each of its operations, whichever way it comes', async (t) => {
  const { agent, codeOf } = await startCallers(t)
  for (const route of routes) {
    if (isOwners(route) || /^\/v1\/vault\/(?:lock|unlock|owner\/sign-in)$/.test(route.path)) continue
    for (const via of ways)
      t.notMatch(
        await codeOf(route, { kind: 'agent', agent, via }),
        /^(?:UNAUTHORIZED|OWNER_REQUIRED|INTERNAL_ERROR)$/,
        `${nameOf(route)}, ${via}`,
      )
  }
})

t.test('the host itself refuses what is the owner’s, also where a transport forgets to', async (t) => {
  const { vault, agent } = await startCallers(t)
  for (const route of routes.filter(isOwners))
    for (const caller of [
      { kind: 'agent', agent, via: 'direct' },
      { kind: 'owner', via: 'relay' },
      { kind: 'owner', via: 'mcp' },
      { kind: 'anyone', via: 'direct' },
    ] as const) {
      const name = nameOf(route)
      const call = { input: { ...bodies[name] }, name: 'x1', context: { caller, requestId: 'test' } }
      const done = (async () => route.operation.run(vault.api, call))()
      const refused = await done.then(
        () => 'done',
        (error: unknown) => (isVaultError(error) ? error.code : error),
      )
      t.match(refused, /^(?:UNAUTHORIZED|OWNER_REQUIRED)$/, `${name}, ${caller.kind} by ${caller.via}`)
    }
})

t.test('a page’s session does nothing with the keys themselves', async (t) => {
  const { codeOf } = await startCallers(t)
  const custody = routes.filter(({ path }) =>
    /^\/v1\/vault\/owner\/(?:keys|mnemonic|password|backup|links)/.test(path),
  )
  t.ok(custody.length >= 10)
  for (const route of custody)
    t.equal(await codeOf(route, { kind: 'owner', via: 'direct' }), 'OWNER_REQUIRED', route.path)
})

t.test(
  'other machines reach what agents may do, except to lock the vault or ask for its state',
  async (t) => {
    for (const route of routes) {
      const { method, path } = route
      const isRemote = !isOwners(route) && !thisMachineOnly.test(path) && path !== '/v1/vault/owner/sign-in'
      t.equal(judgeRoute(remoteRoutes, method, pathOf(route)) === 'allowed', isRemote, `${method} ${path}`)
    }
  },
)

t.test('agents read of every operation of theirs, and tools are among what they read of', async (t) => {
  for (const { at, who, isRemote, name, description, tool } of operations) {
    const first = at.join()
    if (name !== undefined) t.equal(who, 'agent', first)
    t.equal(name === undefined, description === undefined, first)
    if (tool !== undefined) t.ok(name, first)
    if (isRemote && who !== 'anyone') t.ok(name, first)
  }
})
