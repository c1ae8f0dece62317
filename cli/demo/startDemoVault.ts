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

/** The program that starts the vault. This module has its extension, which is .js when compiled and .ts in a clone. */
const program = fileURLToPath(new URL(`../main${extname(import.meta.url)}`, import.meta.url))

const walletUsdc = 5_000_000n

/** The longest times that a vault allows, which are a week. A demo that was left alone still pays within that time. */
const longestOpen = ['--idle-minutes', '10080', '--max-hours', '168']

/**
 * The largest amount that the demo's vault pays without approval, in USDC. One link's price is below it and the other's above
 * it.
 */
export const autoApproveUpTo = '0.05'

/** A vault in its own process, with money on both chains and one agent. */
export interface DemoVault {
  readonly url: string
  readonly home: string
  /** For a user who locks the vault, or returns after a week, when it has locked itself. */
  readonly passwordFile: string
  readonly token: string
  readonly owner: OwnerClient
  close(): Promise<void>
}

/** Creates a vault in the demo's folder and runs it as its owner would: `tollgate vault --testnets`. */
export async function startDemoVault(demo: Pick<Demo, 'dataDir' | 'evm' | 'solana'>): Promise<DemoVault> {
  const { dataDir, evm, solana } = demo
  const home = join(dataDir, 'vault')
  const passwordFile = join(dataDir, 'vault-password')
  const password = randomBytes(24).toString('base64url')
  mkdirSync(dataDir, { recursive: true })
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 })
  // The local chains are test chains, so the test addresses get the money.
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
    // When this process ends, even by a crash, the IPC channel closes and the vault detects that.
    { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], cwd: dataDir },
  )
  let printed = ''
  child.stderr!.on('data', (chunk) => (printed = `${printed}${chunk}`.slice(-4_000)))
  const gone = once(child, 'exit')
  const close = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
    await gone
  }
  try {
    const line = await Promise.race([
      once(createInterface({ input: child.stdout! }), 'line').then(([text]) => String(text)),
      gone.then(() => Promise.reject(new Error(`The vault did not start: ${printed}`))),
    ])
    const { url } = JSON.parse(line)
    // If the vault cannot run, the line contains the reason instead of a URL.
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
