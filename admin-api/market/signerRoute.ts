import type { FastifyInstance } from 'fastify'
import type { Api } from '../deps.ts'
import { limitPerClient, MINUTE_MS } from '../http/callers.ts'

/**
 * Publishes the key that signs offers and receipts, as the DID document of this service's origin. It has the public key for readers
 * of JWK, and the address that readers of EIP-712 recover from a signature.
 *
 * @see https://w3c-ccg.github.io/did-method-web/ and https://www.w3.org/TR/did-core/
 */
export function signerRoute(app: FastifyInstance, api: Api): void {
  // If `publicUrl` has a path, the document is below that path (did:web, section 3.2).
  const path = new URL(api.publicUrl).pathname === '/' ? '/.well-known/did.json' : '/did.json'
  app.get(
    path,
    {
      config: { anyOrigin: true },
      schema: { hide: true },
      onRequest: limitPerClient(api, 'discover', api.limits.discoverPerMinute, MINUTE_MS),
    },
    async (_, reply) =>
      reply
        .type('application/did+json; charset=utf-8')
        .header('cache-control', 'public, max-age=300')
        .send(didDocument(api)),
  )
}

function didDocument({ publicUrl, receiptSigner: { address, publicKey } }: Api): string {
  const { host, pathname } = new URL(publicUrl)
  const id = `did:web:${encodeURIComponent(host)}${pathname.replace(/\/$/, '').replaceAll('/', ':')}`
  const coordinate = (from: number) => Buffer.from(publicKey.subarray(from, from + 32)).toString('base64url')
  const [key, account] = [`${id}#receipts`, `${id}#receipts-address`]
  return JSON.stringify({
    '@context': ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/suites/jws-2020/v1'],
    id,
    verificationMethod: [
      {
        id: key,
        type: 'JsonWebKey2020',
        controller: id,
        publicKeyJwk: { kty: 'EC', crv: 'secp256k1', x: coordinate(1), y: coordinate(33) },
      },
      {
        id: account,
        type: 'EcdsaSecp256k1RecoveryMethod2020',
        controller: id,
        blockchainAccountId: `eip155:1:${address}`,
      },
    ],
    assertionMethod: [key, account],
  })
}
