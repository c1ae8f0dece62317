import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

const noRight = 'needs the right to mount a small tmpfs'

/**
 * A disk in memory that a test can fill: its folder, which goes with the test.
 *
 * @param size as `mount` reads it, such as `32m`
 * @returns undefined where this user may mount none: the test is skipped then, visibly
 */
export function mountSmallDisk(t: Pick<Test, 'teardown' | 'pass'>, size: string): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-disk-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder], { stdio: 'ignore' })
  } catch {
    rmdirSync(folder)
    t.pass(noRight, { skip: noRight })
    return undefined
  }
  // For processes that run as another user than the one that mounts.
  chmodSync(folder, 0o755)
  t.teardown(() => {
    execFileSync('umount', ['--lazy', folder])
    rmdirSync(folder)
  })
  return folder
}
