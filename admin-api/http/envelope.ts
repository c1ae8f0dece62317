/** The answer of everything that the marketplace interface does not show bare. */
export const ok = <T>(data: T): { success: true; data: T } => ({ success: true, data })

export const isoTime = (ms: number): string => new Date(ms).toISOString()
export const isoTimeOrNull = (ms: number | null): string | null => (ms === null ? null : isoTime(ms))
