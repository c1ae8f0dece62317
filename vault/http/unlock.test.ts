import t from 'tap'
import { createTestClock, password, quickHasher, startVault } from '../../test/helpers/vault/startVault.ts'
import type { PasswordHasher } from '../storage/password/kdf.ts'

const unlock = '/v1/vault/unlock'

/** A locked vault, its owner's browser session, and the number of password hashes since. */
async function locked(t: Parameters<typeof startVault>[0]) {
  let hashes = 0
  const hasher: PasswordHasher = {
    hash(...all) {
      hashes++
      return quickHasher.hash(...all)
    },
  }
  const clock = createTestClock()
  const vault = await startVault(t, { clock, hasher })
  const agent = await vault.agent('a', ['wallet.base'])
  const { token } = (await vault.asOwner('POST', '/v1/vault/owner/sessions', {})).body
  const asPage = (method: string, path: string, body?: unknown) =>
    vault.call(method, path, body, { authorization: `Bearer ${token}` })
  await vault.asOwner('POST', '/v1/vault/lock', {})
  const before = hashes
  return { vault, agent, clock, asPage, hashed: () => hashes - before }
}

t.test('no stranger on this machine can keep the owner out, or make the vault work', async (t) => {
  const { vault, agent, asPage, hashed } = await locked(t)
  for (let i = 0; i < 40; i++) {
    for (const response of [
      await vault.call('POST', unlock, { password: i % 2 === 0 ? password : 'a guess' }),
      await agent.call('POST', unlock, { password: 'a guess' }),
    ]) {
      t.match([response.status, response.body.error.code], [403, 'OWNER_REQUIRED'])
      t.match(response.body.error.message, /tollgate vault (?:unlock|open)/)
    }
  }
  t.equal(hashed(), 0)
  t.equal((await vault.asOwner('GET', '/v1/vault/status')).body.retry_after_ms, 0)
  t.equal((await asPage('POST', unlock, { password })).status, 200, 'the page')
  await vault.asOwner('POST', '/v1/vault/lock', {})
  t.equal((await vault.asOwner('POST', unlock, { password })).status, 200, 'the socket')
  const { events } = (await vault.asOwner('GET', '/v1/vault/activity?action=UNLOCK')).body
  t.strictSame(
    events.map(({ agent: who, status }: Record<string, string>) => [who, status]),
    [
      ['owner', 'APPROVED'],
      ['owner', 'APPROVED'],
    ],
    'and strangers write nothing into the log',
  )
})

t.test('a guess in the page makes the page wait and not the socket, also after a restart', async (t) => {
  const { vault, asPage, hashed, clock } = await locked(t)
  t.equal((await asPage('POST', unlock, { password: 'a guess' })).body.error.code, 'BAD_PASSWORD')
  for (let i = 0; i < 5; i++) {
    const early = await asPage('POST', unlock, { password })
    t.match([early.status, early.body.error.code], [429, 'TOO_MANY_ATTEMPTS'])
  }
  t.equal(hashed(), 1, 'what comes too early is not hashed')
  t.equal((await asPage('GET', '/v1/vault/status')).body.retry_after_ms, 1_000)
  t.equal((await vault.asOwner('GET', '/v1/vault/status')).body.retry_after_ms, 0)
  t.equal((await vault.asOwner('POST', unlock, { password })).status, 200)
  t.equal((await asPage('GET', '/v1/vault/status')).body.retry_after_ms, 1_000, 'each door has its own wait')
  await vault.close()
  const again = await startVault(t, { home: vault.home, clock })
  t.equal(again.vault.state.pageRetryAfterMs, 1_000)
  t.equal(again.vault.state.retryAfterMs, 0)
})

t.test(
  'a link from the socket signs the page in while the vault is locked, and the page unlocks it',
  async (t) => {
    const { vault } = await locked(t)
    const { url } = (await vault.asOwner('POST', '/v1/vault/owner/links', {})).body
    const code = new URL(url).hash.slice('#code='.length)
    const signedIn = await vault.call('POST', '/v1/vault/owner/sign-in', { code })
    t.equal(signedIn.status, 201)
    const headers = { authorization: `Bearer ${signedIn.body.token}` }
    t.equal((await vault.call('GET', '/v1/vault/status', undefined, headers)).body.locked, true)
    t.equal((await vault.call('POST', unlock, { password }, headers)).status, 200)
    t.equal((await vault.call('GET', '/v1/vault/agents', undefined, headers)).status, 200)
  },
)

t.test('an agent locks the vault by a grant, and only while it is open', async (t) => {
  const vault = await startVault(t)
  const plain = await vault.agent('plain', ['wallet.*', 'custom.*', 'identity.*'])
  const guard = await vault.agent('guard', ['vault.lock'])
  const refused = await plain.call('POST', '/v1/vault/lock', {})
  t.match([refused.status, refused.body.error.code], [403, 'SCOPE_DENIED'])
  t.match(refused.body.error.message, /vault\.lock/)
  t.equal(vault.vault.state.locked, false)
  t.strictSame((await guard.call('POST', '/v1/vault/lock', {})).body, { locked: true })
  t.equal((await guard.call('POST', '/v1/vault/lock', {})).status, 423)
  t.equal((await vault.asOwner('POST', '/v1/vault/lock', {})).status, 200)
})
