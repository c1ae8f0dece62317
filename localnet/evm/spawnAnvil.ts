import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { LocalChainError } from '../jsonRpcClient.ts'

/** How long anvil may take until it listens, in ms. On an idle machine it takes about 50 ms. */
const START_TIMEOUT_MS = 20_000

/** Options for the start of anvil. */
export type AnvilOptions = {
  chainId: number
  /** TCP port on 127.0.0.1. 0 to let the system choose. */
  port: number
  /** Time between blocks, in ms. If absent, every transaction gets a block at once. */
  blockTimeMs?: number
  /** With `blockTimeMs`, true to give every transaction a block at once too. */
  minesAtOnce?: boolean
  /** Maximum gas of the transactions in one block. If absent, anvil's default. */
  blockGas?: number
}

/** A running anvil. */
export type AnvilProcess = {
  rpcUrl: string
  /** Ends the process, and resolves when it is gone. May be called again. */
  stop(): Promise<void>
}

/**
 * Starts the anvil binary of the npm package `@foundry-rs/anvil` and waits until it listens.
 *
 * The platform's binary is run directly instead of through the package's script, so that killing the child ends the node. This
 * process kills the child when it ends. If this process is killed itself, a small shell does that.
 *
 * @throws {LocalChainError} `local_chain_not_installed` or `local_chain_start_failed`
 */
export async function spawnAnvil(options: AnvilOptions): Promise<AnvilProcess> {
  const binary = anvilBinary()
  const args = ['--host', '127.0.0.1', '--port', String(options.port), '--chain-id', String(options.chainId)]
  // Transactions are mined in order of arrival, so that their tips do not affect the order and tests can rely on it.
  args.push('--order', 'fifo')
  // By default, anvil stores old states below the user's home, and may leave them there.
  const scratch = mkdtempSync(join(tmpdir(), 'tollgate-anvil-'))
  args.push('--cache-path', scratch)
  if (options.blockGas !== undefined) args.push('--gas-limit', String(options.blockGas))
  if (options.blockTimeMs !== undefined) args.push('--block-time', String(options.blockTimeMs / 1000))
  if (options.minesAtOnce) args.push('--mixed-mining')

  const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const guard = guardOf(child.pid, scratch)
  const kill = () => {
    // The guard is killed first. Later it could kill another process that has received anvil's process id.
    guard?.kill('SIGKILL')
    child.kill('SIGKILL')
  }
  const clean = () => rmSync(scratch, { recursive: true, force: true })
  const atExit = () => {
    kill()
    clean()
  }
  process.once('exit', atExit)
  const gone = once(child, 'close')
    .catch(() => undefined)
    .then(() => {
      process.off('exit', atExit)
      guard?.kill('SIGKILL')
      clean()
    })

  const rpcUrl = await listening(child).catch(async (error: unknown) => {
    kill()
    await gone
    throw error
  })
  return {
    rpcUrl,
    async stop() {
      kill()
      await gone
    },
  }
}

/**
 * A shell that kills anvil if this process ends without having done so. The shell waits for the end of a pipe that only this
 * process has open. It runs in its own process group, so that Ctrl-C does not end it first. Windows has no such shell, so there is
 * no guard on Windows.
 */
function guardOf(pid: number | undefined, scratch: string): ChildProcess | undefined {
  if (pid === undefined || process.platform === 'win32') return undefined
  const script = 'read _; kill -9 "$1"; rm -rf "$2"'
  const guard = spawn('/bin/sh', ['-c', script, 'tollgate-anvil-guard', String(pid), scratch], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  // If there is no shell, anvil runs without a guard.
  guard.on('error', () => undefined)
  guard.stdin.on('error', () => undefined)
  guard.unref()
  ;(guard.stdin as unknown as { unref?(): void }).unref?.()
  return guard
}

function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let printed = ''
    const fail = (why: string, cause?: unknown) => {
      clearTimeout(timer)
      reject(new LocalChainError('local_chain_start_failed', `anvil did not start: ${why}`, { cause }))
    }
    const timer = setTimeout(() => fail(`no response within ${START_TIMEOUT_MS} ms`), START_TIMEOUT_MS)
    child.once('error', (error) => fail(error.message, error))
    child.once('close', (code) => fail(`it ended with code ${code}. Its output: ${printed.slice(-500)}`))
    child.stderr?.on('data', (chunk: Buffer) => {
      printed += chunk
    })
    child.stdout?.on('data', (chunk: Buffer) => {
      // The banner ends with the address. The log of calls that follows is read and discarded, because a full pipe would stop the
      // node.
      if (printed === 'listening') return
      printed += chunk
      const address = /Listening on (127\.0\.0\.1:\d+)/.exec(printed)?.[1]
      if (address === undefined) return
      printed = 'listening'
      clearTimeout(timer)
      resolve(`http://${address}`)
    })
  })
}

/** Path of the binary. npm installs it in another package for each platform. */
function anvilBinary(): string {
  const arch = process.arch === 'x64' ? 'amd64' : process.arch
  const platformPackage = `@foundry-rs/anvil-${process.platform}-${arch}`
  const file = process.platform === 'win32' ? 'anvil.exe' : 'anvil'
  try {
    const parent = createRequire(import.meta.url).resolve('@foundry-rs/anvil/package.json')
    const manifest = createRequire(parent).resolve(`${platformPackage}/package.json`)
    return join(dirname(manifest), 'bin', file)
  } catch (cause) {
    throw new LocalChainError(
      'local_chain_not_installed',
      `The local EVM chain needs the npm packages @foundry-rs/anvil and ${platformPackage}, and they are not ` +
        'installed. In a clone, run `npm install`.',
      { cause },
    )
  }
}
