import { readFileSync, statSync } from 'node:fs'
import { isIP, SocketAddress } from 'node:net'

/** The file is looked at no more often than this. */
const LOOK_MS = 1_000

/** Where the system keeps it. */
export const systemHostsFile =
  process.platform === 'win32'
    ? `${process.env.SystemRoot ?? 'C:\\Windows'}\\System32\\drivers\\etc\\hosts`
    : '/etc/hosts'

/** The addresses that a name has in the file, as canonical IP addresses, IPv4 first; none when it is not there. */
export type HostsFile = (host: string) => readonly string[]

/**
 * Makes the look-up in a hosts file. It is read again once it is another one; one that can not be read holds no names.
 *
 * It is read at once, not by a thread: those may all be waiting for something else. That is a small file, rarely.
 */
export function createHostsFile(path: string): HostsFile {
  const isChanged = createWatch(path)
  let names: ReadonlyMap<string, readonly string[]> = new Map()
  return (host) => {
    if (isChanged()) names = readNames(path)
    return names.get(host.toLowerCase()) ?? []
  }
}

/** Makes the question whether the file is another one than at the last question; at the first one it is. */
function createWatch(path: string): () => boolean {
  let lookedAtMs = Number.NEGATIVE_INFINITY
  let last = 'not looked at'
  return () => {
    const nowMs = performance.now()
    if (nowMs - lookedAtMs < LOOK_MS) return false
    lookedAtMs = nowMs
    const now = looksOf(path)
    if (now === last) return false
    last = now
    return true
  }
}

function looksOf(path: string): string {
  try {
    const { ino, size, mtimeMs } = statSync(path)
    return `${ino} ${size} ${mtimeMs}`
  } catch {
    return 'none'
  }
}

function readNames(path: string): Map<string, readonly string[]> {
  const names = new Map<string, string[]>()
  for (const line of textOf(path).split('\n')) {
    const [text = '', ...hosts] = line.replace(/#.*/s, '').trim().split(/\s+/)
    const address = canonical(text)
    if (address === undefined) continue
    for (const host of hosts) {
      const known = names.get(host.toLowerCase()) ?? []
      if (!known.includes(address)) names.set(host.toLowerCase(), [...known, address])
    }
  }
  for (const addresses of names.values()) addresses.sort((a, b) => isIP(a) - isIP(b))
  return names
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** The form that address policies read. An address with a zone has none: it leads nowhere without it. */
function canonical(text: string): string | undefined {
  const family = isIP(text)
  if (family === 0 || text.includes('%')) return undefined
  return new SocketAddress({ address: text, family: family === 4 ? 'ipv4' : 'ipv6' }).address
}
