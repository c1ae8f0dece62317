import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { privateKeyToAccount } from 'viem/accounts'
import { mnemonic, password, quickHasher, startVault } from '../../test/helpers/vault/startVault.ts'
import { signBody } from '../../test/helpers/vault/transfers.ts'
import { restoreVault } from '../storage/restoreVault.ts'

const base = '/v1/vault/owner'
const hotKey = `0x${'11'.repeat(32)}`
const hotAddress = privateKeyToAccount(`0x${'11'.repeat(32)}`).address
const otherWords = 'zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo wrong'

const folderFor = (t: Test): string => {
  const folder = mkdtempSync(join(tmpdir(), 'custody-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

t.test(
  'a key that was brought in is used by agents when the owner says so, and can be taken out',
  async (t) => {
    const vault = await startVault(t)
    const imported = await vault.asOwner('POST', `${base}/keys/import`, {
      password,
      family: 'evm',
      name: 'hot',
      private_key: hotKey,
    })
    t.match(imported, { status: 200, body: { id: 'import:hot', address: hotAddress, in_use: false } })
    t.notOk('private_key' in imported.body)
    const agent = await vault.agent('bot', ['wallet.base'])
    const before = await agent.call('GET', '/address/base')
    t.not(before.body.address, hotAddress)
    t.equal((await vault.asOwner('POST', `${base}/keys/use`, { id: 'import:hot' })).body.in_use, true)
    t.equal((await agent.call('GET', '/address/base')).body.address, hotAddress)
    const { body } = await vault.asOwner('GET', `${base}/keys`)
    t.strictSame(
      body.keys.filter((key: { in_use: boolean }) => key.in_use).map((key: { id: string }) => key.id),
      ['solana:0', 'evm-test:0', 'solana-test:0', 'import:hot'],
    )
    const exported = await vault.asOwner('POST', `${base}/keys/export`, { password, id: 'import:hot' })
    t.equal(exported.body.private_key, hotKey)
    const derived = await vault.asOwner('POST', `${base}/keys/export`, { password, id: 'evm:0' })
    t.equal(privateKeyToAccount(derived.body.private_key).address, before.body.address)
    t.equal(
      (await vault.asOwner('POST', `${base}/keys/derive`, { family: 'solana', index: 3 })).body.path,
      "m/44'/501'/3'/0'",
    )
    const log = JSON.stringify((await vault.asOwner('GET', '/v1/vault/activity')).body)
    t.match(log, 'the private key import:hot exported')
    t.notMatch(log, '1111111111', 'no key is in the log')
  },
)

t.test('a key of solana comes out as it went in', async (t) => {
  const vault = await startVault(t)
  const out = async (id: string) =>
    (await vault.asOwner('POST', `${base}/keys/export`, { password, id })).body.private_key
  const text = await out('solana:0')
  const body = { password, family: 'solana', name: 'copy', private_key: text }
  const { body: copy } = await vault.asOwner('POST', `${base}/keys/import`, body)
  t.equal(copy.address, vault.vault.keys.get('solana:0').address)
  t.equal(await out('import:copy'), text)
  t.match(await vault.asOwner('POST', `${base}/keys/import`, body), {
    status: 409,
    body: { error: { code: 'ALREADY_EXISTS' } },
  })
})

t.test('words go in and out, and the accounts are theirs', async (t) => {
  const vault = await startVault(t)
  t.equal((await vault.asOwner('POST', `${base}/mnemonic/export`, { password })).body.mnemonic, mnemonic)
  const before = vault.vault.keys.get('evm:0').address
  const { body } = await vault.asOwner('POST', `${base}/mnemonic/import`, { password, mnemonic: otherWords })
  t.not(body.keys.find((key: { id: string }) => key.id === 'evm:0').address, before)
  t.equal((await vault.asOwner('POST', `${base}/mnemonic/export`, { password })).body.mnemonic, otherWords)
  const refused = await vault.asOwner('POST', `${base}/mnemonic/import`, {
    password,
    mnemonic: 'hunter2 '.repeat(12),
  })
  t.match(refused, { status: 400, body: { error: { code: 'VALIDATION_ERROR' } } })
  t.notMatch(JSON.stringify(refused.body), 'hunter2')
})

t.test('whatever has to do with keys is for the socket alone, and asks for the password again', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('bot', ['wallet.*', 'identity.*'])
  const session = vault.api.createOwnerSession(vault.owner).token
  const asked = {
    'keys/derive': { family: 'evm', index: 1 },
    'keys/use': { id: 'evm:0' },
    'keys/import': { password, family: 'evm', name: 'hot', private_key: hotKey },
    'keys/export': { password, id: 'evm:0' },
    'mnemonic/import': { password, mnemonic: otherWords },
    'mnemonic/export': { password },
    password: { password, new_password: 'another long password' },
    backup: { file: join(folderFor(t), 'b') },
  }
  for (const [path, body] of Object.entries(asked)) {
    const page = { authorization: `Bearer ${session}` }
    for (const response of [
      await agent.call('POST', `${base}/${path}`, body),
      await vault.call('POST', `${base}/${path}`, body, page),
      await vault.call('POST', `${base}/${path}`, body),
    ])
      t.ok([401, 403].includes(response.status), `${path}: ${response.status}`)
  }
  t.equal(
    (await vault.call('GET', `${base}/keys`, undefined, { authorization: `Bearer ${session}` })).status,
    403,
  )

  for (const [path, body] of Object.entries(asked)) {
    if (!('password' in body)) continue
    const wrong = await vault.asOwner('POST', `${base}/${path}`, { ...body, password: 'wrong password' })
    // After the first wrong password the next one is not even checked.
    t.ok(['BAD_PASSWORD', 'TOO_MANY_ATTEMPTS'].includes(wrong.body.error.code), path)
    const { password: _, ...without } = body
    t.equal((await vault.asOwner('POST', `${base}/${path}`, without)).status, 400, path)
  }
  const { body } = await vault.asOwner('GET', '/v1/vault/activity?status=DENIED')
  t.match(body.events, [{ action: 'CONFIG' }], 'a wrong password is written down')
})

t.test('a wrong request is told what it lacks', async (t) => {
  const vault = await startVault(t)
  for (const [path, body, code] of [
    ['keys/derive', { family: 'bitcoin', index: 0 }, 'VALIDATION_ERROR'],
    ['keys/derive', { family: 'evm', index: '0' }, 'VALIDATION_ERROR'],
    ['keys/derive', { family: 'evm', index: -1 }, 'VALIDATION_ERROR'],
    ['keys/use', { id: 'evm:9' }, 'KEY_UNKNOWN'],
    ['keys/export', { password, id: 'import:none' }, 'KEY_UNKNOWN'],
    ['keys/import', { password, family: 'evm', name: '../x', private_key: hotKey }, 'VALIDATION_ERROR'],
    [
      'keys/import',
      { password, family: 'evm', name: 'x', private_key: `0x${'00'.repeat(32)}` },
      'VALIDATION_ERROR',
    ],
    ['keys/import', { password, family: 'evm', name: 'x', private_key: hotKey, more: 1 }, 'VALIDATION_ERROR'],
    ['password', { password, new_password: 'short' }, 'VALIDATION_ERROR'],
    ['backup', { file: 'relative' }, 'VALIDATION_ERROR'],
    ['backup', { file: '/nowhere/at/all' }, 'STORAGE_UNAVAILABLE'],
  ] as const)
    t.equal((await vault.asOwner('POST', `${base}/${path}`, body)).body.error?.code, code, `${path} ${code}`)
})

t.test('the password changes, locked or not, and a backup opens with the one of its day', async (t) => {
  const vault = await startVault(t)
  const folder = folderFor(t)
  const file = join(folder, 'backup')
  t.equal((await vault.asOwner('POST', `${base}/backup`, { file })).status, 200)
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.equal((await vault.asOwner('POST', `${base}/backup`, { file })).body.error.code, 'ALREADY_EXISTS')

  const change = (from: string, to: string) =>
    vault.asOwner('POST', `${base}/password`, { password: from, new_password: to })
  t.equal((await change(password, 'the second password')).status, 200)
  await vault.asOwner('POST', '/v1/vault/lock', {})
  t.equal((await change('the second password', 'the third password')).status, 200, 'locked, too')
  t.equal((await vault.asOwner('GET', `${base}/keys`)).status, 423)
  t.equal((await vault.asOwner('POST', '/v1/vault/unlock', { password: 'the third password' })).status, 200)

  const home = join(folder, 'restored')
  await t.rejects(restoreVault({ home, file, password: 'the third password', hasher: quickHasher }), {
    code: 'BAD_PASSWORD',
  })
  t.notOk(existsSync(join(home, 'vault.json')))
  const { vault: restored } = await restoreVault({ home, file, password, hasher: quickHasher })
  t.equal(restored.keys.get('evm:0').address, vault.vault.keys.get('evm:0').address)
  await restored.close()
})

t.test(
  'after a restore every agent and every pairing waits for the owner, whatever the backup says',
  async (t) => {
    const before = await startVault(t)
    const folder = folderFor(t)
    const file = join(folder, 'backup')
    const kept = await before.agent('kept', ['identity.name', 'wallet.base'])
    const revoked = await before.agent('revoked later', ['identity.name'])
    const gone = await before.agent('revoked before', ['identity.name'])
    await before.asOwner('POST', `/v1/vault/agents/${gone.id}/revoke`, {})
    await before.vault.records.put('value', 'identity.name', 'Ada')
    await before.vault.records.putJson('pairing', 'pair_1', {
      id: 'pair_1',
      agentId: kept.id,
      state: 'paired',
    })
    await before.vault.records.putJson('pairing', 'pair_2', {
      id: 'pair_2',
      agentId: kept.id,
      state: 'revoked',
    })
    await before.asOwner('POST', `${base}/backup`, { file })
    await before.asOwner('POST', `/v1/vault/agents/${revoked.id}/revoke`, {})

    const home = join(folder, 'restored')
    const { vault: restored, suspended } = await restoreVault({ home, file, password, hasher: quickHasher })
    await restored.close()
    t.strictSame(suspended, { agents: 2, pairings: 1 })
    const vault = await startVault(t, { home })
    const as = (token: string, method: string, path: string, body?: unknown) =>
      vault.call(method, path, body, { authorization: `Bearer ${token}` })
    const read = (token: string) => as(token, 'POST', '/v1/vault/read', { scope: 'identity.name' })
    for (const { token } of [kept, revoked]) {
      t.match(await read(token), {
        status: 403,
        body: { error: { code: 'AGENT_SUSPENDED', action: /tollgate vault agents resume/ } },
      })
      for (const path of [
        '/v1/vault/activity',
        '/v1/vault/budget',
        '/v1/vault/approvals',
        '/v1/vault/events',
        '/address/base',
      ])
        t.equal((await as(token, 'GET', path)).body.error.code, 'AGENT_SUSPENDED', path)
      t.equal((await as(token, 'POST', '/v1/vault/sign', signBody('1'))).status, 403)
      t.equal((await as(token, 'POST', '/v1/vault/lock', {})).body.error.code, 'AGENT_SUSPENDED')
    }
    t.equal((await read(gone.token)).status, 401)
    const { agents } = (await vault.asOwner('GET', '/v1/vault/agents')).body
    t.strictSame(
      agents.map(({ name, suspended: is }: { name: string; suspended: boolean }) => [name, is]).toSorted(),
      [
        ['kept', true],
        ['revoked before', false],
        ['revoked later', true],
      ],
    )
    t.match(vault.vault.records.getJson('pairing', 'pair_1'), { state: 'paired', suspendedAtMs: Number })
    t.notOk(Object.hasOwn(vault.vault.records.getJson('pairing', 'pair_2') as object, 'suspendedAtMs'))
    t.match((await vault.asOwner('GET', '/v1/vault/activity?action=CONFIG')).body.events[0], {
      details: { note: /restored from a backup.* 2 agents and 1 pairings suspended/ },
    })

    const path = `/v1/vault/agents/${kept.id}`
    t.equal((await as(kept.token, 'PATCH', path, { suspended: false })).status, 403, 'not by itself')
    for (const value of [true, null, 0, 'false'])
      t.equal((await vault.asOwner('PATCH', path, { suspended: value })).status, 400)
    t.equal((await vault.asOwner('PATCH', path, { requests_per_minute: 60 })).body.suspended, true)
    t.match(await vault.asOwner('PATCH', path, { suspended: false }), {
      status: 200,
      body: { suspended: false },
    })
    t.equal((await read(kept.token)).body.value, 'Ada')
    t.equal((await read(revoked.token)).status, 403, 'one does not let another in')
    await vault.asOwner('POST', '/v1/vault/lock', {})
    await vault.asOwner('POST', '/v1/vault/unlock', { password })
    t.equal((await read(kept.token)).status, 200, 'and it stays so')
  },
)

t.test('an imported key signs what its agent asks for', async (t) => {
  const vault = await startVault(t)
  await vault.asOwner('POST', `${base}/keys/import`, {
    password,
    family: 'evm',
    name: 'hot',
    private_key: hotKey,
  })
  await vault.asOwner('POST', `${base}/keys/use`, { id: 'import:hot' })
  const agent = await vault.agent('bot', ['wallet.base'])
  const waiting = agent.call('POST', '/v1/vault/sign', signBody('2'), { prefer: 'wait=0' })
  const { approval_id: id } = (await waiting).body
  const { body: shown } = await vault.asOwner('GET', `/v1/vault/approvals/${id}`)
  await vault.asOwner('POST', `/v1/vault/approvals/${id}/approve`, { decision_hash: shown.decision_hash })
  const signed = await agent.call('POST', '/v1/vault/sign', signBody('2'))
  const { recoverTransactionAddress } = await import('viem')
  t.equal(await recoverTransactionAddress({ serializedTransaction: signed.body.signed_tx }), hotAddress)
})
