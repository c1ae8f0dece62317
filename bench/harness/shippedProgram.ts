import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = new URL('../..', import.meta.url).pathname

/**
 * `cli/bin.js` as a user has it who installed the package: it runs what was built, where in a clone it would run the sources. Built
 * once, into the temporary folder, and gone with this process; those that it starts use the same one. `BENCH_PROGRAM` names
 * another one: that of an installed package.
 */
export function shippedProgram(): string {
  const known = process.env['BENCH_PROGRAM']
  if (known !== undefined) return known
  const build = spawnSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: ['ignore', 2, 2] })
  if (build.status !== 0) throw new Error('The package could not be built; npm says why above.')
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-package-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'cli'))
  for (const part of ['cli/bin.js', 'config', 'dist', 'package.json'])
    cpSync(join(root, part), join(folder, part), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  return (process.env['BENCH_PROGRAM'] = join(folder, 'cli', 'bin.js'))
}
