import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { silentLog } from '../../core/ports/log.ts'
import { startVault } from '../../test/helpers/vault/startVault.ts'
import { startVaultServer } from './server.ts'

const statusAt = (socketPath: string): Promise<number | undefined> =>
  new Promise((resolve, reject) =>
    request({ socketPath, path: '/health' }, (res) => {
      res.resume()
      resolve(res.statusCode)
    })
      .on('error', reject)
      .end(),
  )

t.test("the owner's socket is that of the process which has the vault's folder", async (t) => {
  const { api } = await startVault(t)
  const folder = mkdtempSync(join(tmpdir(), 'socket-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const socketPath = join(folder, 'owner.sock')
  const listen = (isSocketInHome: boolean) =>
    startVaultServer(api, silentLog, { host: '127.0.0.1', port: null, socketPath, isSocketInHome })

  const lost = await listen(true)
  await t.rejects(listen(false), /Another vault listens/, "a socket elsewhere may be another vault's")
  const holder = await listen(true)
  t.equal(await statusAt(socketPath), 200)
  await lost.close()
  t.equal(await statusAt(socketPath), 200, 'a process that lost the folder takes no socket with it')
  t.equal(statSync(socketPath).mode & 0o777, 0o600)
  t.strictSame(readdirSync(folder), ['owner.sock'])
  await holder.close()
  t.notOk(existsSync(socketPath))

  writeFileSync(socketPath, 'a file')
  await t.rejects(listen(true), /Expected a socket or nothing/)
  t.ok(existsSync(socketPath))
})
