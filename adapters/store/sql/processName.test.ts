import { spawnSync } from 'node:child_process'
import t from 'tap'

const env = {
  ...process.env,
  NODE: process.execPath,
  MODULE: new URL('./processName.ts', import.meta.url).href,
}

/** Runs a script in new namespaces and returns its output; undefined when the system allows none. */
function inRoom(flags: string, shell: string, script: string): string | undefined {
  const options = { encoding: 'utf8', env: { ...env, SCRIPT: script } } as const
  const { status, stdout } = spawnSync('unshare', [flags, 'sh', '-c', shell], options)
  return status === 0 ? stdout.trim() : undefined
}

t.test('where /proc tells of another room, a process has no name there', async (t) => {
  // The shell stays the first process, so that the script's own process id is another one.
  const shell = '"$NODE" --input-type=module -e "$SCRIPT"; exit $?'
  const result = inRoom('-rpf', shell, 'console.log((await import(process.env.MODULE)).thisProcess)')
  if (result === undefined) return t.pass('no namespaces here', { skip: 'no namespaces here' })
  t.equal(result, 'null')
})

t.test('a process of another user that /proc hides has not ended', async (t) => {
  const script = `
    import { spawnSync } from 'node:child_process'
    const { hasEnded, thisProcess } = await import(process.env.MODULE)
    const [, name] = process.argv
    if (name !== undefined) console.log(hasEnded(name))
    else {
      const args = ['--input-type=module', '-e', process.env.SCRIPT, thisProcess]
      const { stdout } = spawnSync(process.execPath, args, { uid: 65534, gid: 65534, encoding: 'utf8' })
      console.log(stdout.trim())
    }`
  const shell = 'mount -t proc -o hidepid=2 proc /proc && "$NODE" --input-type=module -e "$SCRIPT"'
  const result = inRoom('-m', shell, script)
  if (result === undefined)
    return t.pass('nobody may hide processes here', { skip: 'nobody may hide processes here' })
  t.equal(result, 'false')
})
