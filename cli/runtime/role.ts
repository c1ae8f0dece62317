/** What a process of an installation does by itself; others do the rest, on the same store. */
export const roles = ['gateway', 'admin', 'jobs'] as const
export type Role = (typeof roles)[number]

/** Whether a process does a part. @param only what it was started for; absent: everything */
export const does = (part: Role, only: Role | undefined): boolean => only === undefined || only === part
