import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { base58 } from '@scure/base'
import { Keypair } from '@solana/web3.js'
import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { loadWallets } from './loadWallets.ts'

const dir = mkdtempSync(join(tmpdir(), 'tollgate-keys-'))
t.teardown(() => rmSync(dir, { recursive: true }))
let count = 0
const keyFile = (text: string, mode = 0o600) => {
  const path = join(dir, String(count++))
  writeFileSync(path, text)
  chmodSync(path, mode)
  return path
}

const evm = generatePrivateKey()
const solana = Keypair.generate()
const evmAddress = privateKeyToAccount(evm).address
const solanaAddress = solana.publicKey.toBase58()
const solanaText = base58.encode(solana.secretKey)
const solanaArray = JSON.stringify([...solana.secretKey])

t.test('every documented form of a key makes the wallet it belongs to', async (t) => {
  for (const [text, hasEvm, hasSolana] of [
    [`${evm}\n`, true, false],
    [`${solanaText}\n`, false, true],
    [solanaArray, false, true],
    [JSON.stringify({ evm, solana: solanaText }), true, true],
    [JSON.stringify({ solana: [...solana.secretKey] }), false, true],
    [JSON.stringify({ evm }), true, false],
  ] as const) {
    const wallets = await loadWallets({ keyFile: keyFile(text), env: {} })
    t.equal(wallets.eip155?.address, hasEvm ? evmAddress : undefined)
    t.equal(wallets.solana?.address, hasSolana ? solanaAddress : undefined)
  }
  for (const key of [solanaText, solanaArray]) {
    const wallets = await loadWallets({ env: { TOLLGATE_EVM_KEY: evm, TOLLGATE_SOLANA_KEY: key } })
    t.equal(wallets.eip155?.address, evmAddress)
    t.equal(wallets.solana?.address, solanaAddress)
  }
  t.strictSame(await loadWallets({ env: { TOLLGATE_EVM_KEY: '', TOLLGATE_SOLANA_KEY: ' ' } }), {})
})

t.test('a key file that others can read is refused', async (t) => {
  for (const mode of [0o644, 0o640, 0o604, 0o622, 0o666]) {
    await t.rejects(loadWallets({ keyFile: keyFile(evm, mode), env: {} }), { message: /chmod 600/ })
  }
  await t.rejects(loadWallets({ keyFile: join(dir, 'missing'), env: {} }), { name: 'UsageError' })
  await t.rejects(loadWallets({ keyFile: dir, env: {} }), { name: 'UsageError' })
})

t.test('a wrong key is refused and never repeated', async (t) => {
  const halves = Uint8Array.from(solana.secretKey)
  halves.set(Keypair.generate().publicKey.toBytes(), 32)
  for (const text of [
    evm.slice(0, -1),
    `${evm}0`,
    evm.slice(2),
    `0x${'0'.repeat(64)}`,
    `0x${'f'.repeat(64)}`,
    solanaText.slice(1),
    solanaAddress,
    base58.encode(halves),
    JSON.stringify([...solana.secretKey.slice(0, 63)]),
    JSON.stringify([...solana.secretKey.slice(0, 63), 256]),
    JSON.stringify({ evm: 7 }),
    `{"evm":"${evm}","evm":"${evm}"}`,
    '',
    'x'.repeat(5_000),
  ]) {
    const failure = await loadWallets({ keyFile: keyFile(text), env: {} }).then(
      () => undefined,
      (error: Error) => error,
    )
    t.equal(failure?.name, 'UsageError', `refused: ${text.length} characters`)
    const shown = `${failure?.message} ${failure?.stack} ${String(failure?.cause)}`
    t.notOk(text.length > 8 && shown.includes(text.slice(2, 40)), 'the message does not repeat the key')
  }
})
