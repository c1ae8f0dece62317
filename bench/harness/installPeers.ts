import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

/** Installs what bench/package.json names, once: the peers are not part of the product. */
export function installPeers(progress: (line: string) => void): void {
  const folder = new URL('..', import.meta.url).pathname
  if (existsSync(`${folder}node_modules/@x402/express/package.json`)) return
  progress('installing the peers of bench/package.json …')
  const npm = spawnSync(
    'npm',
    ['--prefix', folder, 'install', '--omit=optional', '--no-audit', '--no-fund'],
    {
      stdio: ['ignore', 2, 2],
    },
  )
  if (npm.status !== 0) throw new Error('The peers could not be installed; npm says why above.')
}
