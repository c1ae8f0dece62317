/**
 * The beginning of a decision hash, in groups of four, as every place that shows a question shows it: what the owner
 * compares between two screens. 64 bits; what binds an answer is the whole hash.
 *
 * @example shortHash('3f2a91bc04de77aa…') // '3f2a 91bc 04de 77aa'
 */
export const shortHash = (decisionHash: string): string =>
  decisionHash.slice(0, 16).replace(/(.{4})(?=.)/g, '$1 ')
