import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { LocalChainError } from '../localChainError.ts'

/** How long anvil may take to say that it listens, in milliseconds; it takes about 50 on an idle machine. */
const START_TIMEOUT_MS = 20_000

/** What is told to anvil at its start. */
export type AnvilOptions = {
  chainId: number
  /** TCP port on 127.0.0.1; 0 lets the system choose. */
  port: number
  /** Milliseconds between blocks; absent, every transaction gets a block at once. */
  blockTimeMs?: number
  /** With `blockTimeMs`: every transaction gets a block at once as well. */
  minesAtOnce?: boolean
  /** Gas that the transactions of one block may use. Default: anvil's. */
  blockGas?: number
}

/** A running anvil. */
export type AnvilProcess = {
  rpcUrl: string
  /** Ends the process and resolves when it is gone; calling it again is harmless. */
  stop(): Promise<void>
}

/**
 * Starts the anvil binary of the npm package `@foundry-rs/anvil` and waits until it listens.
 *
 * The platform's binary is run directly, not through the package's script, so that ending the child ends the node.
 * The child is killed with this process; where this one is killed itself, a small shell that waits for that does it.
 *
 * @throws {LocalChainError} `local_chain_not_installed` or `local_chain_start_failed`.
 */
export async function spawnAnvil(options: AnvilOptions): Promise<AnvilProcess> {
  const binary = anvilBinary()
  const args = ['--host', '127.0.0.1', '--port', String(options.port), '--chain-id', String(options.chainId)]
  // First come, first mined: a test that sends two transactions knows their order whatever their tips.
  args.push('--order', 'fifo')
  // Anvil's own place for old states is below the user's home, and it may leave them there.
  const scratch = mkdtempSync(join(tmpdir(), 'tollgate-anvil-'))
  args.push('--cache-path', scratch)
  if (options.blockGas !== undefined) args.push('--gas-limit', String(options.blockGas))
  if (options.blockTimeMs !== undefined) args.push('--block-time', String(options.blockTimeMs / 1000))
  if (options.minesAtOnce) args.push('--mixed-mining')

  const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const guard = guardOf(child.pid, scratch)
  const kill = () => {
    // First, so that it never sees the end of this process with a process id that somebody else has by then.
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
 * Kills anvil when this process is gone without having done so: it waits for the end of a pipe that only this process
 * holds. In a group of its own, so that a Ctrl-C does not end it first. Windows has no such shell, and does without.
 */
function guardOf(pid: number | undefined, scratch: string): ChildProcess | undefined {
  if (pid === undefined || process.platform === 'win32') return undefined
  const script = 'read _; kill -9 "$1"; rm -rf "$2"'
  const guard = spawn('/bin/sh', ['-c', script, 'tollgate-anvil-guard', String(pid), scratch], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  // Without a shell everything works but this.
  guard.on('error', () => undefined)
  guard.stdin.on('error', () => undefined)
  guard.unref()
  ;(guard.stdin as unknown as { unref?(): void }).unref?.()
  return guard
}

function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = ''
    const fail = (why: string, cause?: unknown) => {
      clearTimeout(timer)
      reject(new LocalChainError('local_chain_start_failed', `anvil did not start: ${why}`, { cause }))
    }
    const timer = setTimeout(() => fail(`no answer within ${START_TIMEOUT_MS} ms`), START_TIMEOUT_MS)
    child.once('error', (error) => fail(error.message, error))
    child.once('close', (code) => fail(`it ended with code ${code}. It said: ${said.slice(-500)}`))
    child.stderr?.on('data', (chunk: Buffer) => {
      said += chunk
    })
    child.stdout?.on('data', (chunk: Buffer) => {
      // The banner ends with the address; after that the log of every call is read and thrown away, because a
      // full pipe would stop the node.
      if (said === 'listening') return
      said += chunk
      const address = /Listening on (127\.0\.0\.1:\d+)/.exec(said)?.[1]
      if (address === undefined) return
      said = 'listening'
      clearTimeout(timer)
      resolve(`http://${address}`)
    })
  })
}

/** The binary's path: npm installs it in a package of its own for each platform. */
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
        'installed. Run `npm install --include=optional @foundry-rs/anvil@1.7.1`.',
      { cause },
    )
  }
}
