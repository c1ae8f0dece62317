import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { ownerSocket } from '../vault/flags.ts'
import { initVault } from '../vault/initVault.ts'
import { type OwnerClient, openOwnerClient } from '../vault/ownerClient.ts'
import type { Demo } from './startDemo.ts'

/** Compiled, this module and the program are .js; run from source, both are .ts. */
const program = fileURLToPath(new URL(`../main${extname(import.meta.url)}`, import.meta.url))

const walletUsdc = 5_000_000n

/** A demo that was left alone over a meal still pays. The longest that a vault takes: a week. */
const longestOpen = ['--idle-minutes', '10080', '--max-hours', '168']

/** What the demo's vault pays without asking, in USDC: more than the one link costs and less than the other. */
export const autoApproveUpTo = '0.05'

/** A vault of its own process with money on both chains, and one agent in it. */
export interface DemoVault {
  readonly url: string
  readonly home: string
  /** For the owner who locks it, or comes after a week. */
  readonly passwordFile: string
  /** The agent's token. */
  readonly token: string
  /** Speaks on the owner's socket. */
  readonly owner: OwnerClient
  close(): Promise<void>
}

/** Makes a vault in the demo's folder and runs it as its owner would: `tollgate vault --testnets`. */
export async function startDemoVault(demo: Pick<Demo, 'dataDir' | 'evm' | 'solana'>): Promise<DemoVault> {
  const { dataDir, evm, solana } = demo
  const home = join(dataDir, 'vault')
  const passwordFile = join(dataDir, 'vault-password')
  const password = randomBytes(24).toString('base64url')
  mkdirSync(dataDir, { recursive: true })
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 })
  // The local chains are test chains to the vault.
  const { test_addresses: addresses } = await initVault({ home, password, mnemonic: undefined })
  await evm.mintUsdc(addresses.evm as `0x${string}`, walletUsdc)
  solana.mintUsdc(addresses.solana, walletUsdc)

  const socketPath = ownerSocket(home, undefined)
  const child = spawn(
    process.execPath,
    [
      ...[program, 'vault', '--home', home, '--password-file', passwordFile, '--json'],
      ...['--port', '0', '--testnets', '--solana-rpc', solana.rpcUrl, ...longestOpen],
    ],
    // The channel tells it when this process is gone, however that came.
    { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], cwd: dataDir },
  )
  let said = ''
  child.stderr!.on('data', (chunk) => (said = `${said}${chunk}`.slice(-4_000)))
  const gone = once(child, 'exit')
  const close = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
    await gone
  }
  try {
    const line = await Promise.race([
      once(createInterface({ input: child.stdout! }), 'line').then(([text]) => String(text)),
      gone.then(() => Promise.reject(new Error(`The vault did not start: ${said}`))),
    ])
    const { url } = JSON.parse(line)
    // What it prints instead is why it does not run.
    if (typeof url !== 'string') throw new Error(`The vault did not start: ${line}`)
    const owner = await openOwnerClient({ home, socketPath, password: () => undefined })
    const { id, token } = await owner.call<{ id: string; token: string }>('POST', '/v1/vault/agents', {
      name: 'shopper',
      scopes: ['wallet.base-sepolia', 'wallet.solana-devnet'],
    })
    await owner.call('PUT', `/v1/vault/policies/${id}`, policy)
    return { url, home, passwordFile, token, owner, close }
  } catch (error) {
    await close()
    throw error
  }
}

const usdcOn = (chain: string) => ({
  chain,
  symbol: 'USDC',
  perTransaction: '1',
  perDay: '2',
  autoApproveUpTo,
})
const policy = { assets: [usdcOn('base-sepolia'), usdcOn('solana-devnet')], recipients: 'any' }
