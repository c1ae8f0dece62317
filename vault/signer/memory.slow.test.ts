import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { quickHasher } from '../../test/helpers/vault/quickHasher.ts'
import { unseal } from '../disk/aead.ts'
import { derivationPath, derivePrivateKey } from '../keys/derivation.ts'
import { toSeed } from '../keys/mnemonic.ts'
import { createVault } from '../storage/createVault.ts'
import { decodeHeader, passwordKeyOf, proofOf } from '../storage/password/header.ts'
import { kdfFloor } from '../storage/password/kdf.ts'

const password = 'correct horse battery'
const mnemonic = 'test test test test test test test test test test test junk'
const imported = Buffer.from('6f1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9', 'hex')

/** Opens a vault, signs with two of its keys, prints the pid of its signing process, and stays until its input ends. */
const program = `
  const { openVault } = await import(${JSON.stringify(import.meta.resolve('../storage/localVault.ts'))})
  const { quickHasher } = await import(${JSON.stringify(import.meta.resolve('../../test/helpers/vault/quickHasher.ts'))})
  const vault = await openVault({ home: process.argv[1], hasher: quickHasher })
  await vault.unlock(${JSON.stringify(password)})
  for (const keyId of ['evm:0', 'solana:0', 'import:hot']) {
    const kind = keyId === 'solana:0' ? 'solana-message' : 'evm-message'
    await vault.signer.sign({ requestId: keyId, keyId, kind, bytes: Buffer.from('x') })
  }
  if (vault.records.getText('value', 'identity.name') !== 'Ada Lovelace of Ockham') throw new Error('not read')
  console.log(vault.signer.pid)
  process.stdin.resume().on('end', () => vault.close())`

/** Which of these bytes are in what a process can write to; undefined where the system does not permit reading it. */
function found(pid: number, wanted: Readonly<Record<string, Buffer>>): string[] | undefined {
  const longest = 64 * 1024 * 1024
  const names = new Set<string>()
  let memory: number
  try {
    memory = openSync(`/proc/${pid}/mem`, 'r')
  } catch {
    return undefined
  }
  for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
    const [, from, to] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? []
    if (from === undefined || to === undefined) continue
    for (let at = Number(`0x${from}`); at < Number(`0x${to}`); at += longest) {
      const bytes = Buffer.alloc(Math.min(longest, Number(`0x${to}`) - at))
      try {
        readSync(memory, bytes, 0, bytes.length, at)
      } catch {
        continue
      }
      for (const [name, secret] of Object.entries(wanted)) if (bytes.includes(secret)) names.add(name)
    }
  }
  closeSync(memory)
  return [...names].sort()
}

t.test(
  'the memory of the process that speaks for the vault holds no master key, no seed and no private key',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-vault-'))
    t.teardown(() => rmSync(folder, { recursive: true }))
    const home = join(folder, 'vault')
    const { vault } = await createVault({ home, password, mnemonic, hasher: quickHasher, kdf: kdfFloor })
    await vault.importKey(password, 'evm', 'hot', Buffer.from(imported))
    await vault.records.put('value', 'identity.name', 'Ada Lovelace of Ockham')
    await vault.close()

    const header = decodeHeader(readFileSync(join(home, 'vault.json')))
    const passwordKey = await passwordKeyOf(header, password, quickHasher)
    const { wrappedKey, associated } = proofOf(header, passwordKey)
    const seed = await toSeed(mnemonic)
    const keys = {
      'an imported key': imported,
      'the EVM key': derivePrivateKey('evm', seed, derivationPath('evm', 0)),
      'the Solana key': derivePrivateKey('solana', seed, derivationPath('solana', 0)),
      'the master key': unseal(passwordKey, wrappedKey, associated)!,
      'the seed': seed,
    }
    const child = spawn(process.execPath, ['--input-type=module', '-e', program, home], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const gone = once(child, 'exit')
    t.teardown(async () => {
      child.stdin.end()
      await gone
    })
    const [line] = await once(createInterface(child.stdout), 'line')
    const ofSigner = found(Number(line), keys)
    const ofHost = found(child.pid!, keys)
    if (ofSigner === undefined || ofHost === undefined)
      return t.pass('not tried', { skip: 'no memory of other processes can be read here' })
    t.ok(
      ofSigner.includes('the master key') && ofSigner.includes('the seed'),
      'where they are, they are seen',
    )
    t.ok(ofSigner.includes('an imported key') && ofSigner.includes('the EVM key'))
    t.strictSame(ofHost, [])
  },
)
