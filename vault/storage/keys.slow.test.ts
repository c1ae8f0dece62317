import t from 'tap'
import { make, message, mnemonic, password } from '../../test/helpers/vault/storage.ts'
import type { OwnedSigner } from '../signer/signingProcess.ts'

const firstEvm = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'

const firstSolana = 'oeYf6KAJkLYhBuR8CiGc6L4D4Xtfepr85fuDgA9kq96'

t.test(
  'a signing process that ends locks the vault, says so, and begins anew with the next unlock',
  async (t) => {
    const { vault } = await make(t)
    await vault.records.put('value', 'identity.name', 'Ada')
    const locked = new Promise((resolve) => vault.onLock(resolve))
    const pid = (vault.signer as OwnedSigner).pid!
    process.kill(pid, 'SIGSTOP')
    const underWay = vault.signer.sign(message('a'))
    process.kill(pid, 'SIGKILL')
    await t.rejects(underWay, { code: 'SIGNER_LOST' })
    t.equal(await locked, 'signer')
    t.match(vault.state, { locked: true, lockReason: 'signer' })
    t.throws(() => vault.records.get('value', 'identity.name'), { code: 'VAULT_LOCKED' })
    await t.rejects(vault.signer.sign(message('b')), { code: 'VAULT_LOCKED' })
    await vault.unlock(password)
    t.match(vault.state, { locked: false, lockReason: undefined })
    t.equal((await vault.signer.sign(message('b'))).bytes.length, 65)
    const { entries } = await vault.audit.query({ action: 'LOCK' })
    t.match(entries, [{ agent: 'vault', status: 'FAILED', note: /signing process exited/ }])
    t.match(await vault.audit.verify(), { ok: true, authenticated: true })
  },
)

t.test('keys are derived, imported, exported and chosen, and sign as themselves', async (t) => {
  const { vault, open } = await make(t)
  t.equal(vault.keys.default('evm').address, firstEvm)
  t.equal(vault.keys.default('solana').address, firstSolana)
  const second = await vault.keys.derive('evm', 1)
  t.equal(second.address, '0x70997970C51812dc3A010C7d01b50e0d17dc79C8')
  await vault.keys.setDefault('evm', 'evm:1')
  await t.rejects(vault.keys.setDefault('evm', 'solana:0'), { code: 'VALIDATION_ERROR' })
  await t.rejects(vault.keys.setDefault('evm', 'evm:9'), { code: 'KEY_UNKNOWN' })
  const raw = Buffer.alloc(32, 7)
  const imported = await vault.importKey(password, 'evm', 'hot', raw)
  t.ok(
    raw.every((byte) => byte === 0),
    'the bytes given are zeroed',
  )
  await t.rejects(vault.importKey(password, 'evm', 'hot', Buffer.alloc(32, 8)), { code: 'ALREADY_EXISTS' })
  await t.rejects(vault.importKey(password, 'evm', 'zero', Buffer.alloc(32)), { code: 'VALIDATION_ERROR' })
  const signature = (await vault.signer.sign(message('a', 'import:hot'))).bytes
  t.strictSame(await vault.exportKey(password, 'import:hot'), Buffer.alloc(32, 7))
  const exported = await vault.exportKey(password, 'evm:0')
  t.equal(exported.toString('hex'), 'ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80')
  await vault.close()
  const next = await open()
  await next.unlock(password)
  t.equal(next.keys.default('evm').keyId, 'evm:1')
  t.strictSame(next.keys.get('import:hot'), imported)
  t.strictSame((await next.signer.sign(message('b', 'import:hot'))).bytes, signature)
})

t.test(
  'another mnemonic gives other addresses, keeps imported keys, and comes with the next start',
  async (t) => {
    const { vault, open } = await make(t)
    await vault.importKey(password, 'solana', 'hot', Buffer.alloc(32, 7))
    await vault.keys.derive('solana', 2)
    const words = 'legal winner thank year wave sausage worth useful legal winner thank yellow'
    await t.rejects(vault.importMnemonic(password, `${words} extra`), { code: 'VALIDATION_ERROR' })
    t.equal(vault.keys.default('evm').address, firstEvm, 'a refused one changes nothing')
    await vault.importMnemonic(password, words)
    t.not(vault.keys.default('evm').address, firstEvm)
    t.strictSame(
      vault.keys
        .list()
        .map(({ keyId }) => keyId)
        .toSorted(),
      ['evm-test:0', 'evm:0', 'import:hot', 'solana-test:0', 'solana:0', 'solana:2'],
    )
    t.equal(await vault.exportMnemonic(password), words)
    const keys = vault.keys.list()
    await vault.close()
    const next = await open()
    await next.unlock(password)
    t.strictSame(next.keys.list(), keys)
    await next.importMnemonic(password, mnemonic)
    t.equal(next.keys.default('evm').address, firstEvm)
  },
)

t.test('keys are not among the records that the host can name', async (t) => {
  const { vault } = await make(t)
  for (const collection of ['key', '', 'constructor']) {
    const wrong = { code: 'VALIDATION_ERROR' }
    t.throws(() => vault.records.get(collection as never, 'seed'), wrong)
    t.throws(() => vault.records.list(collection as never), wrong)
    await t.rejects(vault.records.delete(collection as never, 'seed'), wrong)
    await t.rejects(vault.records.put(collection as never, 'seed', 'x'), wrong)
  }
  t.throws(() => vault.records.get('value', 'seed'), { code: 'UNKNOWN_SCOPE' })
  t.throws(() => vault.records.get('state', ''), { code: 'VALIDATION_ERROR' })
})
