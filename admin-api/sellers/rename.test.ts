import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { evmWallet, solanaWallet, type Wallet } from '../../test/helpers/admin-api/wallets.ts'
import { createApiKey, prefixOf } from './apiKey.ts'

const DAY_MS = 24 * 60 * 60_000

/** A store that has sold, and what a client with its API key may try. */
async function seller(t: Test, signer: Wallet = evmWallet()) {
  const f = await startAdmin(t)
  const { body } = await f.signUp(signer, { username: 'weather' })
  const key: string = body.data.apiKey
  const { id } = (await f.db.stores.byUsername('weather'))!
  await sell(f.db, { storeId: id, linkId: randomUUID(), amount: '1', atMs: f.clock.nowMs })
  const patch = (body: object) => f.call('PATCH', '/api/v1/profile', { key, body })
  const nonce = (username: string, by = key) =>
    f.call('POST', '/api/v1/profile/username/nonce', { key: by, body: { username } })
  const proofOf = async (username: string, by: Wallet = signer) => {
    const { message } = (await nonce(username)).body.data
    return { message, signature: await by.sign(message) }
  }
  const rename = async (username: string) => patch({ username, usernameProof: await proofOf(username) })
  const name = async () => (await f.db.stores.find(id))!.username
  return { f, id, key, signer, patch, nonce, proofOf, rename, name }
}

t.test('an API key alone does not rename a store that has sold', async (t) => {
  const { f, signer, patch, name } = await seller(t)
  const { status, body } = await patch({ username: 'elsewhere', bio: 'taken over' })
  t.equal(status, 403)
  t.equal(body.error.code, 'WALLET_SIGNATURE_REQUIRED')
  for (const word of [signer.address, '/api/v1/profile/username/nonce', 'usernameProof'])
    t.match(body.error.message, word)
  t.ok(body.error.message.length <= 500, 'clients show the first 500 characters')
  t.equal(await name(), 'weather')
  t.equal((await patch({})).body.data.bio, '', 'nothing else of the request was done')
  t.equal((await patch({ username: 'weather', bio: 'mine' })).status, 200, 'the same name is no rename')
  t.same(f.changes.length, 1)
})

t.test('nor one that is being paid: the buyer asks again at the name that it has', async (t) => {
  for (const state of ['claimed', 'settling', 'pending'] as const) {
    const f = await startAdmin(t)
    const { key, username, id } = await f.store()
    await sell(f.db, { storeId: id, linkId: randomUUID(), amount: '1', atMs: f.clock.nowMs, state })
    const { status } = await f.call('PATCH', '/api/v1/profile', { key, body: { username: 'elsewhere' } })
    t.equal(status, 403, state)
    t.equal((await f.signUp(evmWallet(), { username })).status, 409)
  }
})

t.test("the words of the error, followed, rename the store with its wallet's signature", async (t) => {
  for (const signer of [evmWallet(), solanaWallet('base64'), solanaWallet('base58')]) {
    const { f, patch, nonce } = await seller(t, signer)
    const response = await nonce('rain')
    t.equal(response.status, 200)
    const { message, address, chain, expiresAt } = response.body.data
    t.same([address, chain], [signer.address, signer.chain])
    t.equal(expiresAt, new Date(f.clock.nowMs + 300_000).toISOString())
    t.ok(message.includes('Rename the store @weather to @rain.'), message)
    const body = { username: 'rain', usernameProof: { message, signature: await signer.sign(message) } }
    const renamed = await Promise.all([patch(body), patch(body), patch(body)])
    t.same(
      renamed.map(({ status, body }) => [status, body.data?.username]),
      Array(3).fill([200, 'rain']),
      'a repeat changes nothing and says the same',
    )
    t.equal((await f.call('GET', '/api/store/weather')).headers['location'], '/api/store/rain')
  }
})

t.test('no newcomer gets any name of a store that has sold, however often it was renamed', async (t) => {
  const { f, rename } = await seller(t)
  const names = ['weather', 'rain', 'snow', 'hail']
  for (const username of names.slice(1)) {
    f.clock.nowMs += DAY_MS
    t.equal((await rename(username)).status, 200)
  }
  for (const username of names) t.equal((await f.signUp(evmWallet(), { username })).status, 409, username)
  for (const username of names.slice(0, -1))
    t.equal((await f.call('GET', `/api/store/${username}`)).headers['location'], '/api/store/hail')
  f.clock.nowMs += 28 * DAY_MS
  t.equal((await f.signUp(evmWallet(), { username: 'weather' })).status, 201, 'after 30 days')
  t.equal((await f.signUp(evmWallet(), { username: 'rain' })).status, 409)
})

t.test('a signature is good for the very rename that was signed, once', async (t) => {
  const { f, patch, nonce, proofOf, name } = await seller(t)
  const refused = async (usernameProof: object, code: string, username = 'rain') => {
    const { status, body } = await patch({ username, usernameProof })
    t.equal(status, 401)
    t.equal(body.error.code, code)
  }
  await refused(await proofOf('snow'), 'NONCE_EXPIRED')
  await refused(await proofOf('rain', evmWallet()), 'INVALID_SIGNATURE')
  const old = await proofOf('rain')
  f.clock.nowMs += 300_000
  await refused(old, 'NONCE_EXPIRED')
  const thief = await f.signUp(evmWallet())
  const foreign = (await nonce('rain', thief.body.data.apiKey)).body.data.message
  await refused({ message: foreign, signature: '0x00' }, 'NONCE_EXPIRED')
  t.equal(await name(), 'weather')

  const proof = await proofOf('rain')
  t.equal((await patch({ username: 'rain', usernameProof: proof })).status, 200)
  t.equal((await patch({ username: 'weather', usernameProof: await proofOf('weather') })).status, 200)
  await refused(proof, 'NONCE_EXPIRED')
  t.equal(await name(), 'weather')
})

t.test('a rename that cannot be is refused before anything is signed', async (t) => {
  const { f, patch, nonce, proofOf } = await seller(t)
  await f.signUp(evmWallet(), { username: 'taken_name' })
  t.equal((await nonce('taken_name')).body.error.code, 'USERNAME_TAKEN')
  t.equal((await nonce('docs')).body.error.details[0].code, 'reserved')
  t.equal((await nonce('weather')).body.error.code, 'CONFLICT')
  t.equal((await nonce('No Name')).status, 400)
  const usernameProof = await proofOf('rain')
  const loose = await patch({ usernameProof, bio: 'x' })
  t.equal(loose.body.error.details[0].path, 'usernameProof')
})

t.test('a rename and a change of payout in one request each need their own signature', async (t) => {
  const { f, key, signer, patch, proofOf, name } = await seller(t)
  const payout = { solana: solanaWallet().address }
  const text = await f.call('POST', '/api/v1/profile/payout/nonce', { key, body: { payout } })
  const { message } = text.body.data
  const payoutProof = { message, signature: await signer.sign(message) }
  const usernameProof = await proofOf('rain')
  const half = await patch({ username: 'rain', payout, payoutProof })
  t.match(half.body.error, { code: 'WALLET_SIGNATURE_REQUIRED', message: 'usernameProof' })
  const other = await patch({ username: 'rain', payout, usernameProof })
  t.match(other.body.error, { code: 'WALLET_SIGNATURE_REQUIRED', message: 'payoutProof' })
  t.equal(await name(), 'weather')
  const both = await patch({ username: 'rain', usernameProof, payout, payoutProof })
  t.match(both.body.data, { username: 'rain', payout })
})

t.test('of a store that the operator opened, a wallet that is paid signs', async (t) => {
  const f = await startAdmin(t)
  const [base, solana] = [evmWallet(), solanaWallet()]
  const open = async (username: string, payout: { base: string | null; solana: string | null }) => {
    const key = createApiKey()
    const id = randomUUID()
    const times = { createdAtMs: f.clock.nowMs, updatedAtMs: f.clock.nowMs }
    const shown = { displayName: 'x', bio: '', avatarUrl: '', developerModeEnabled: true }
    await f.db.stores.create({ id, username, ...shown, createdBy: 'operator', payout, ...times }, null, {
      id: randomUUID(),
      storeId: id,
      name: 'x',
      keyPrefix: prefixOf(key),
      keyHash: f.sealer.mac('api-key', key).toString('hex'),
      isActive: true,
      lastUsedAtMs: null,
      revokedAtMs: null,
      createdAtMs: f.clock.nowMs,
    })
    await sell(f.db, { storeId: id, linkId: randomUUID(), amount: '1', atMs: f.clock.nowMs })
    return key
  }
  const key = await open('op_store', { base: base.address, solana: solana.address })
  for (const [username, signer] of [
    ['op_one', base],
    ['op_two', solana],
  ] as const) {
    const response = await f.call('POST', '/api/v1/profile/username/nonce', { key, body: { username } })
    const { message } = response.body.data
    // The text is for one wallet. That wallet signs, or the response names the wallet that has to.
    const by = response.body.data.address === signer.address ? signer : base
    const usernameProof = { message, signature: await by.sign(message) }
    const renamed = await f.call('PATCH', '/api/v1/profile', { key, body: { username, usernameProof } })
    t.equal(renamed.body.data?.username, username)
  }
  const unpaid = await open('op_unpaid', { base: null, solana: null })
  const body = { username: 'op_three' }
  const refused = await f.call('PATCH', '/api/v1/profile', { key: unpaid, body })
  t.match(refused.body.error, { code: 'FORBIDDEN', message: 'tollgate store payout op_unpaid --base' })
})
