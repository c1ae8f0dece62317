import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import type { Payout } from '../../core/domain/link.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { evmWallet, solanaWallet, type Wallet } from '../../test/helpers/admin-api/wallets.ts'
import { createApiKey, prefixOf } from './apiKey.ts'

/** A seller who signed up with a wallet, and what an attacker may try with the API key. */
async function seller(t: Test, signer: Wallet = evmWallet()) {
  const f = await startAdmin(t)
  const { body } = await f.signUp(signer)
  const key: string = body.data.apiKey
  const patch = (body: object, by = key) => f.call('PATCH', '/api/v1/profile', { key: by, body })
  const nonce = (payout: object, by = key) =>
    f.call('POST', '/api/v1/profile/payout/nonce', { key: by, body: { payout } })
  const proofOf = async (payout: object, by: Wallet = signer) => {
    const { message } = (await nonce(payout)).body.data
    return { message, signature: await by.sign(message) }
  }
  const payout = async () => (await f.call('GET', '/api/v1/profile', { key })).body.payout
  return { f, key, username: body.data.store.username as string, signer, patch, nonce, proofOf, payout }
}

/** A store that the operator opened, to which no wallet signs in. */
async function operatorStore(t: Test, payout: Payout) {
  const f = await startAdmin(t)
  const key = createApiKey()
  const id = randomUUID()
  const times = { createdAtMs: f.clock.nowMs, updatedAtMs: f.clock.nowMs }
  const names = { username: 'op_store', displayName: 'x', bio: '', avatarUrl: '', developerModeEnabled: true }
  await f.db.stores.create({ id, ...names, createdBy: 'operator', payout, ...times }, null, {
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
  const current = async () => (await f.call('GET', '/api/v1/profile', { key })).body.payout
  return { f, key, id, current }
}

t.test('an API key alone moves, adds and takes away no payout wallet', async (t) => {
  const { f, signer, patch, payout } = await seller(t)
  const before = await payout()
  for (const change of [
    { base: evmWallet().address },
    { base: null },
    { solana: solanaWallet().address },
    { base: evmWallet().address, solana: solanaWallet().address },
  ]) {
    const { status, body } = await patch({ bio: 'taken over', payout: change })
    t.equal(status, 403)
    t.equal(body.error.code, 'WALLET_SIGNATURE_REQUIRED')
    t.equal(body.error.retryable, false)
    t.ok(body.error.message.length <= 500, 'clients show the first 500 characters')
    t.match(body.error.message, signer.address)
    t.match(body.error.message, '/api/v1/profile/payout/nonce')
    t.match(body.error.message, 'payoutProof')
  }
  t.same(await payout(), before)
  const { bio } = (await patch({})).body.data
  t.equal(bio, '', 'nothing else of the request was done')
  t.same(f.changes, [])
})

t.test("the words of the error, followed, change payout with the wallet's signature", async (t) => {
  const { f, key, username, signer, patch, nonce } = await seller(t)
  const next = evmWallet().address
  f.clock.nowMs += 60_000
  const response = await nonce({ base: next.toLowerCase() })
  t.equal(response.status, 200)
  const { message, address, chain, expiresAt } = response.body.data
  t.same([address, chain], [signer.address, 'base'])
  t.equal(expiresAt, new Date(f.clock.nowMs + 300_000).toISOString())
  t.match(message, /^pay\.example wants you to sign in/)
  t.ok(message.includes(`the store @${username}. On base: from ${signer.address} to ${next}.`), message)

  const payoutProof = { message, signature: await signer.sign(message) }
  const changed = await patch({ payout: { base: next.toLowerCase() }, payoutProof, bio: 'moved' })
  t.equal(changed.status, 200)
  const changedAt = new Date(f.clock.nowMs).toISOString()
  t.match(changed.body.data, { bio: 'moved', payout: { base: next, solana: null, changedAt } })
  t.same(f.changes.at(-1), { kind: 'store', username })
  t.same((await f.call('GET', '/api/v1/profile', { key })).body, changed.body.data)
})

t.test('a payout that is the present one needs no signature and changes nothing', async (t) => {
  const { f, signer, patch, nonce, payout } = await seller(t)
  f.clock.nowMs += 1_000
  const shown = await payout()
  t.equal((await patch({ payout: shown, bio: 'kept' })).body.data.bio, 'kept', 'a profile sent back whole')
  t.equal((await patch({ payout: { base: signer.address.toLowerCase(), solana: null } })).status, 200)
  t.equal((await patch({ payout: {} })).status, 200)
  t.same(await payout(), shown)
  t.equal((await nonce(shown)).body.error.code, 'CONFLICT')
})

t.test(
  'wallets of both chains change at once, are added and taken away, by either kind of wallet',
  async (t) => {
    for (const signer of [evmWallet(), solanaWallet('base64'), solanaWallet('base58')]) {
      const { f, key, payout } = await seller(t, signer)
      const [base, solana] = [evmWallet().address, solanaWallet().address]
      t.equal((await f.movePayout(key, signer, { base, solana })).status, 200)
      t.match(await payout(), { base, solana })
      t.equal((await f.movePayout(key, signer, { solana: null })).status, 200)
      t.match(await payout(), { base, solana: null })
      const back = await f.movePayout(key, signer, {
        solana,
        base: signer.chain === 'base' ? signer.address : null,
      })
      t.equal(back.status, 200, 'the wallet that signs in signs, whoever is paid')
    }
  },
)

t.test('a signature is used once, even when everything stands again as it stood then', async (t) => {
  const { f, key, signer, patch, proofOf, payout } = await seller(t)
  const there = { base: evmWallet().address }
  const proof = await proofOf(there)
  t.equal((await patch({ payout: there, payoutProof: proof })).status, 200)
  t.equal((await patch({ payout: there, payoutProof: proof })).status, 200, 'a repeat that changes nothing')
  t.equal((await f.movePayout(key, signer, { base: signer.address })).status, 200)
  const replayed = await patch({ payout: there, payoutProof: proof })
  t.equal(replayed.status, 401)
  t.equal(replayed.body.error.code, 'NONCE_EXPIRED')
  t.equal((await payout()).base, signer.address)
})

t.test('a signature is good for the very change that was signed', async (t) => {
  const { patch, proofOf, payout } = await seller(t)
  const [base, solana] = [evmWallet().address, solanaWallet().address]
  const others = [
    { base: evmWallet().address },
    { base, solana },
    { base: null },
    { solana },
    { base, solana: solanaWallet().address },
  ]
  for (const other of others) {
    const refused = await patch({ payout: other, payoutProof: await proofOf({ base }) })
    t.equal(refused.status, 401, JSON.stringify(other))
    t.equal(refused.body.error.code, 'NONCE_EXPIRED')
  }
  const partly = await patch({ payout: { base }, payoutProof: await proofOf({ base, solana }) })
  t.equal(partly.body.error.code, 'NONCE_EXPIRED', 'half of what was signed is not what was signed')
  t.equal((await payout()).changedAt, null)
})

t.test("neither another wallet's signature nor another store's text does it", async (t) => {
  const { f, key, signer, patch, proofOf, payout } = await seller(t)
  const thief = evmWallet()
  const thiefKey: string = (await f.signUp(thief)).body.data.apiKey
  const there = { base: thief.address }
  const forged = await proofOf(there, thief)
  const refused = await patch({ payout: there, payoutProof: forged })
  t.equal(refused.status, 401)
  t.equal(refused.body.error.code, 'INVALID_SIGNATURE')
  const again = { message: forged.message, signature: await signer.sign(forged.message) }
  t.equal((await patch({ payout: there, payoutProof: again })).body.error.code, 'NONCE_EXPIRED', 'used up')

  // The thief's own store, with which they get a text that their own wallet may sign.
  const own = await f.call('POST', '/api/v1/profile/payout/nonce', {
    key: thiefKey,
    body: { payout: { base: evmWallet().address } },
  })
  const { message } = own.body.data
  for (const by of [thief, signer]) {
    const payoutProof = { message, signature: await by.sign(message) }
    t.equal((await patch({ payout: there, payoutProof })).body.error.code, 'NONCE_EXPIRED')
  }
  t.equal((await f.movePayout(key, signer, there)).status, 200, 'its own wallet may')
  t.equal((await payout()).base, thief.address)
})

t.test('a text that was changed, made up or is too old is no proof', async (t) => {
  const { f, signer, patch, proofOf, payout } = await seller(t)
  const there = { base: evmWallet().address }
  const by = async (message: string) => ({ message, signature: await signer.sign(message) })
  const refused = async (payoutProof: object, name: string) => {
    const { status, body } = await patch({ payout: there, payoutProof })
    t.equal(status, 401, name)
    t.equal(body.error.code, 'NONCE_EXPIRED', name)
  }
  const { message } = await proofOf({ base: evmWallet().address })
  await refused(await by(message.replace(/to 0x\w{40}/, `to ${there.base}`)), 'another address in the text')
  await refused(await by(`${(await proofOf(there)).message}\n`), 'one character more')
  await refused(await by('Nonce: abcdefgh12345678'), 'a nonce that was never handed out')
  await refused(await by('Pay the thief.'), 'no nonce')
  const old = await proofOf(there)
  f.clock.nowMs += 300_000
  await refused(old, 'five minutes ago')
  t.equal((await patch({ payout: there, payoutProof: { message } })).status, 400)
  t.equal((await patch({ payoutProof: await proofOf(there) })).body.error.details[0].path, 'payoutProof')
  t.equal((await payout()).changedAt, null)
})

t.test('the text of a sign-in moves no payout, and that of a payout signs nobody in', async (t) => {
  const { f, signer, patch, proofOf, payout } = await seller(t)
  const there = { base: evmWallet().address }
  const { address, chain } = signer
  const { message } = (await f.call('POST', '/api/agent/auth/nonce', { body: { address, chain } })).body.data
  const signIn = { message, signature: await signer.sign(message) }
  t.equal((await patch({ payout: there, payoutProof: signIn })).body.error.code, 'NONCE_EXPIRED')

  const proof = await proofOf(there)
  const signedIn = await f.call('POST', '/api/agent/signup', { body: { address, chain, ...proof } })
  t.equal(signedIn.status, 401)
  t.equal(signedIn.body.error.code, 'NONCE_EXPIRED')
  t.equal((await payout()).changedAt, null)
})

t.test('the same request many times at once makes the change once, and every one hears so', async (t) => {
  const { f, patch, proofOf } = await seller(t)
  const there = { base: evmWallet().address }
  const body = { payout: there, payoutProof: await proofOf(there) }
  const responses = await Promise.all(Array.from({ length: 6 }, () => patch(body)))
  for (const { status, body } of responses) {
    t.equal(status, 200)
    t.equal(body.data.payout.base, there.base)
  }
  t.equal(f.changes.length, 1)
})

t.test('of two changes of one wallet at once one is made: the other says what is no longer so', async (t) => {
  const { patch, proofOf, payout } = await seller(t)
  const wallets = [{ base: evmWallet().address }, { base: evmWallet().address }]
  const proofs = await Promise.all(wallets.map((wallet) => proofOf(wallet)))
  const responses = await Promise.all(
    wallets.map((wallet, i) => patch({ payout: wallet, payoutProof: proofs[i] })),
  )
  t.same(
    responses.map(({ status }) => status),
    [200, 401],
  )
  t.equal((await payout()).base, wallets[0]!.base)
})

t.test('two wallets that are changed at once are both changed', async (t) => {
  const { patch, proofOf, payout } = await seller(t)
  const wallets = [{ base: evmWallet().address }, { solana: solanaWallet().address }]
  const proofs = await Promise.all(wallets.map((wallet) => proofOf(wallet)))
  const responses = await Promise.all(
    wallets.map((wallet, i) => patch({ payout: wallet, payoutProof: proofs[i] })),
  )
  t.same(
    responses.map((a) => a.status),
    [200, 200],
  )
  t.match(await payout(), { ...wallets[0], ...wallets[1] })
})

t.test('a change that the operator made while the signature was checked is not overwritten', async (t) => {
  const { f, username, patch, proofOf, payout } = await seller(t)
  const there = { base: evmWallet().address }
  const payoutProof = await proofOf(there)
  const { id } = (await f.db.stores.byUsername(username))!
  const byOperator = { base: evmWallet().address }
  const { verifyMessage } = f.walletProofs
  f.walletProofs.verifyMessage = async (...proof) => {
    await f.db.stores.update(id, { payout: byOperator }, f.clock.nowMs)
    return verifyMessage.apply(f.walletProofs, proof)
  }
  const refused = await patch({ payout: there, payoutProof, username: 'new_name' })
  t.equal(refused.status, 409)
  t.equal(refused.body.error.code, 'CONFLICT')
  t.equal((await payout()).base, byOperator.base)
  t.equal((await f.db.stores.byUsername(username))?.id, id, 'nor was the store renamed')
})

t.test('a key that was revoked meanwhile does not use the signature up', async (t) => {
  const { f, key, patch, proofOf } = await seller(t)
  const there = { base: evmWallet().address }
  const payoutProof = await proofOf(there)
  const other: string = (await f.call('POST', '/api/agent/keys', { key })).body.data.apiKey
  const { keys } = (await f.call('GET', '/api/agent/keys', { key })).body.data
  const mine = keys.find((k: { keyPrefix: string }) => key.startsWith(k.keyPrefix))
  await f.call('DELETE', `/api/agent/keys/${mine.id}`, { key: other })
  t.equal((await patch({ payout: there, payoutProof })).status, 401)
  t.equal((await patch({ payout: there, payoutProof }, other)).status, 200)
  t.equal((await f.call('GET', '/api/v1/profile', { key: other })).body.payout.base, there.base)
})

t.test('whatever is not the fault of the signature leaves it usable', async (t) => {
  const { f, patch, proofOf } = await seller(t)
  await f.signUp(evmWallet(), { username: 'taken_name' })
  const there = { base: evmWallet().address }
  const payoutProof = await proofOf(there)
  f.walletProofs.isChainDown = true
  const down = await patch({ payout: there, payoutProof })
  t.equal(down.status, 503)
  t.equal(down.body.error.code, 'CHAIN_UNAVAILABLE')
  f.walletProofs.isChainDown = false
  const taken = await patch({ payout: there, payoutProof, username: 'taken_name' })
  t.equal(taken.body.error.code, 'USERNAME_TAKEN')
  t.equal((await patch({ payout: there, payoutProof })).status, 200)
})

t.test('a text names the store as it was called then', async (t) => {
  const { patch, proofOf } = await seller(t)
  const there = { base: evmWallet().address }
  const payoutProof = await proofOf(there)
  await patch({ username: 'another_name' })
  t.equal((await patch({ payout: there, payoutProof })).body.error.code, 'NONCE_EXPIRED')
  const renamedToo = { payout: there, payoutProof: await proofOf(there), username: 'third_name' }
  t.match((await patch(renamedToo)).body.data, { username: 'third_name', payout: there })
})

t.test('where no wallet signs in, the one that is paid on that chain signs', async (t) => {
  const [base, solana] = [evmWallet(), solanaWallet()]
  const { f, key, current } = await operatorStore(t, { base: base.address, solana: solana.address })
  const alone = await f.call('PATCH', '/api/v1/profile', { key, body: { payout: { base: null } } })
  t.match(alone.body.error, { code: 'WALLET_SIGNATURE_REQUIRED', message: base.address })
  const wrong = await f.movePayout(key, solana, { base: evmWallet().address })
  t.equal(wrong.body.error.code, 'INVALID_SIGNATURE', 'the wallet of the other chain does not')

  const next = evmWallet()
  t.equal((await f.movePayout(key, base, { base: next.address })).status, 200)
  const old = await f.movePayout(key, base, { base: base.address })
  t.equal(old.body.error.code, 'INVALID_SIGNATURE', 'the one that was replaced has no say any more')
  t.equal((await f.movePayout(key, next, { base: null })).status, 200)
  t.equal((await f.movePayout(key, solana, { solana: solanaWallet().address })).status, 200)
  t.equal((await current()).base, null)
})

t.test('where no wallet can sign, the answer names the command of the operator', async (t) => {
  const base = evmWallet()
  const { f, key, current } = await operatorStore(t, { base: base.address, solana: null })
  const before = await current()
  const payout = { solana: solanaWallet().address }
  for (const refused of [
    await f.call('PATCH', '/api/v1/profile', { key, body: { payout } }),
    await f.movePayout(key, base, payout),
    await f.call('PATCH', '/api/v1/profile', {
      key,
      body: { payout, payoutProof: { message: 'Nonce: abcdefgh12345678', signature: '0x00' } },
    }),
  ]) {
    t.equal(refused.status, 403)
    t.match(refused.body.error, { code: 'FORBIDDEN', message: 'tollgate store payout op_store --solana' })
  }
  const both = await f.movePayout(key, base, { base: evmWallet().address, ...payout })
  t.match(both.body.error, { code: 'FORBIDDEN', message: 'one chain' })
  t.same(await current(), before)
})

t.test('the last payout wallet stays while paid links need it, whoever signs', async (t) => {
  const { f, key, signer, nonce, proofOf, patch } = await seller(t)
  const url = await f.seller()
  const proof = await proofOf({ base: null })
  const link = await f.call('POST', '/api/v1/links', { key, body: { url, title: 'Paid', price: '1' } })
  t.equal(link.status, 201)
  for (const refused of [
    await nonce({ base: null }),
    await patch({ payout: { base: null } }),
    await patch({ payout: { base: null }, payoutProof: proof }),
  ]) {
    t.equal(refused.status, 409)
    t.equal(refused.body.error.code, 'CONFLICT')
  }
  await f.call('PATCH', `/api/v1/links/${link.body.data.id}`, { key, body: { price: '0' } })
  t.equal((await f.movePayout(key, signer, { base: null })).status, 200)
})

t.test('an address that is not one of its chain is refused before anything is signed', async (t) => {
  const { nonce } = await seller(t)
  for (const payout of [
    { base: solanaWallet().address },
    { solana: evmWallet().address },
    { base: '0x12' },
  ]) {
    t.equal((await nonce(payout)).body.error.code, 'INVALID_ADDRESS')
  }
  t.equal((await nonce({ base: 7 })).body.error.code, 'VALIDATION_ERROR')
})
