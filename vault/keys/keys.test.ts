import { createPrivateKey, createPublicKey } from 'node:crypto'
import { HDKey } from '@scure/bip32'
import { HDKey as Slip10Key } from 'micro-key-producer/slip10.js'
import t from 'tap'
import { readVectors } from '../../test/helpers/vectors.ts'
import { checkPrivateKey, ed25519Key, ed25519PublicKey, loadNative, loadNoble } from './curves.ts'
import {
  derivationPath,
  derivedKeyId,
  derivePrivateKey,
  importedKeyId,
  parseDerivedKeyId,
} from './derivation.ts'
import { createMnemonic, fromEntropy, parseMnemonic, toEntropy, toSeed } from './mnemonic.ts'
import { evmAddress, solanaAddress } from './vaultKeyring.ts'

t.test('mnemonics, entropy and seeds are as in the BIP-39 vectors', async (t) => {
  const rows = readVectors<[string, string, string, string][]>('bip39_english.json')
  if (rows === undefined) return t.pass('not tried', { skip: 'the shared vectors are not here' })
  for (const [entropy, mnemonic, seed, xprv] of rows) {
    t.equal(parseMnemonic(mnemonic), mnemonic)
    t.equal(toEntropy(mnemonic).toString('hex'), entropy)
    t.equal(fromEntropy(Buffer.from(entropy, 'hex')), mnemonic)
    const ours = await toSeed(mnemonic, 'TREZOR')
    t.equal(ours.toString('hex'), seed)
    t.equal(HDKey.fromMasterSeed(ours).privateExtendedKey, xprv)
  }
})

t.test(
  'a mnemonic is read with other blanks and case, and refused when any word of it is another',
  async (t) => {
    const words = createMnemonic().split(' ')
    t.equal(words.length, 24)
    t.equal(parseMnemonic(`  ${words.join('\n ').toUpperCase()} `), words.join(' '))
    const refused = [
      '',
      'abandon',
      words.slice(0, 23).join(' '),
      [...words.slice(0, 23), 'tollgate'].join(' '),
      'abandon '.repeat(12).trim(),
      `${'zoo '.repeat(11)}zoo`,
    ]
    for (const text of refused) t.throws(() => parseMnemonic(text), { code: 'VALIDATION_ERROR' })
    try {
      parseMnemonic(`${'secretword '.repeat(11)}other`)
      t.fail('was read')
    } catch (error) {
      t.notMatch(String((error as Error).stack), 'secretword', 'the words are in no message')
      t.match((error as Error).message, 'word 1, 2')
    }
  },
)

interface SlipRow {
  readonly seed: string
  readonly path: string
  readonly privateKey: string
  readonly publicKey: string
}

t.test('Ed25519 keys are derived as in the SLIP-0010 vectors', async (t) => {
  const rows = readVectors<SlipRow[]>('slip10_ed25519.json')
  if (rows === undefined) return t.pass('not tried', { skip: 'the shared vectors are not here' })
  for (const { seed, path, privateKey, publicKey } of rows) {
    const ours =
      path === 'm'
        ? Buffer.from(Slip10Key.fromMasterSeed(Buffer.from(seed, 'hex')).privateKey)
        : derivePrivateKey('solana', Buffer.from(seed, 'hex'), path)
    t.equal(ours.toString('hex'), privateKey, path)
    t.equal(ed25519PublicKey(ed25519Key(ours)).toString('hex'), publicKey.slice(2))
  }
})

interface AddressRow {
  readonly mnemonic: string
  readonly index: number
  readonly evm_path: string
  readonly evm_address: string
  readonly solana_path: string
  readonly solana_address: string
}

t.test('addresses of an account are those that other wallets show', async (t) => {
  const vectors = readVectors<{ rows: AddressRow[] }>('derivation_addresses.json')
  if (vectors === undefined) return t.pass('not tried', { skip: 'the shared vectors are not here' })
  for (const row of vectors.rows) {
    const seed = await toSeed(row.mnemonic)
    t.equal(derivationPath('evm', row.index), row.evm_path)
    t.equal(derivationPath('solana', row.index), row.solana_path)
    const evm = derivePrivateKey('evm', seed, row.evm_path)
    t.equal(evmAddress(loadNative().publicKey(evm)), row.evm_address)
    t.equal(evmAddress(loadNoble().publicKey(evm)), row.evm_address)
    const solana = derivePrivateKey('solana', seed, row.solana_path)
    t.equal(solanaAddress(ed25519PublicKey(ed25519Key(solana))), row.solana_address)
  }
})

interface HdRow {
  readonly seed: string
  readonly hdnodes: readonly {
    readonly path: string
    readonly address: string
    readonly privateKey: string
  }[]
}

t.test('EVM keys and addresses are those of the ethers vectors', async (t) => {
  const rows = readVectors<HdRow[]>('ethers_testcases_hdnode.json.gz')
  if (rows === undefined) return t.pass('not tried', { skip: 'the shared vectors are not here' })
  let nodes = 0
  // Every tenth row: deriving takes milliseconds, and the rows repeat each other.
  for (const { seed, hdnodes } of rows.filter((row, i) => row.hdnodes.length > 0 && i % 10 === 0)) {
    for (const { path, address, privateKey } of hdnodes) {
      const ours = derivePrivateKey('evm', Buffer.from(seed.slice(2), 'hex'), path)
      if (`0x${ours.toString('hex')}` !== privateKey) t.fail(`${path} of ${seed.slice(0, 12)}`)
      const shown = evmAddress(loadNative().publicKey(ours))
      if (shown.toLowerCase() !== address.toLowerCase()) t.fail(`${address}: ${shown}`)
      nodes++
    }
  }
  t.ok(nodes > 20, `${nodes} keys`)
})

t.test('the same account of the same words is another one on test chains', async (t) => {
  const seed = await toSeed('abandon '.repeat(11).concat('about'))
  t.equal(derivationPath('evm', 3, true), "m/44'/1'/0'/0/3")
  t.equal(derivationPath('solana', 3, true), "m/44'/1'/3'/0'")
  const seen = new Set<string>()
  for (const family of ['evm', 'solana'] as const)
    for (let index = 0; index < 5; index++)
      for (const isTest of [false, true])
        seen.add(derivePrivateKey(family, seed, derivationPath(family, index, isTest)).toString('hex'))
  t.equal(seen.size, 20)
})

t.test('indices and names that are none are refused', async (t) => {
  for (const index of [-1, 1.5, 2 ** 31, Number.NaN]) {
    t.throws(() => derivationPath('evm', index), { code: 'VALIDATION_ERROR' })
  }
  for (const isTest of [false, true])
    t.strictSame(parseDerivedKeyId(derivedKeyId('solana', 12, isTest)), {
      family: 'solana',
      index: 12,
      isTest,
    })
  for (const id of [
    'evm:01',
    'evm:-1',
    'evm:',
    'import:x',
    'evm:1 ',
    'evm-tests:1',
    'test:1',
    'evm-test-test:1',
    'bitcoin:0',
    'evm:12345678901',
  ]) {
    t.equal(parseDerivedKeyId(id), undefined, id)
  }
  t.equal(importedKeyId('hot-1'), 'import:hot-1')
  for (const name of ['', 'A', '../x', '-a', 'a b', 'a'.repeat(64)]) {
    t.throws(() => importedKeyId(name), { code: 'VALIDATION_ERROR' })
  }
})

t.test('raw keys are taken when they are keys of their family', async (t) => {
  const order = Buffer.from('fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141', 'hex')
  for (const { isPrivateKey } of [loadNative(), loadNoble()]) {
    t.notOk(isPrivateKey(Buffer.alloc(32)))
    t.notOk(isPrivateKey(order))
    t.ok(isPrivateKey(Buffer.alloc(32, 1)))
  }
  for (const bytes of [Buffer.alloc(32), order, Buffer.alloc(31, 1), Buffer.alloc(64, 1)]) {
    t.throws(() => checkPrivateKey('evm', bytes), { code: 'VALIDATION_ERROR' })
  }
  const seed = Buffer.alloc(32, 8)
  const publicKey = createPublicKey(
    createPrivateKey(ed25519Key(seed).export({ format: 'pem', type: 'pkcs8' })),
  )
  const whole = Buffer.concat([seed, publicKey.export({ format: 'der', type: 'spki' }).subarray(-32)])
  t.strictSame(checkPrivateKey('solana', whole), seed)
  t.strictSame(checkPrivateKey('solana', seed), seed)
  const mismatched = Buffer.from(whole)
  mismatched[40]! ^= 1
  for (const bytes of [mismatched, Buffer.alloc(33), Buffer.alloc(0)]) {
    t.throws(() => checkPrivateKey('solana', bytes), { code: 'VALIDATION_ERROR' })
  }
})
